-- warning by groups (state == "Reconciling" and state_since <= $known_until): a member does not reach its target assignment
-- of a group the first by coalesce(member_state LIKE 'UNRELEASED%', false), member_id, log_offset
-- Member {member_id} (client {client_id}, {client_host}) of {group_id} {how_far}[ (and {others:counted other member})]; the
-- group has been Reconciling since {since:time}, and its rebalance timeout is {timeout_ms:duration}. Its pending partitions
-- are unread, or still read by the previous owner. Check whether its poll loop is stuck; a coordinator should have removed
-- it

-- For twice their rebalance timeout: a coordinator removes them after one. max.poll.interval.ms, which a consumer sends as
-- that timeout, is 5 minutes by default. ghost_member reports members without a host and absent ones. A member that waits
-- for another member to release partitions is not the cause.
SELECT offsets_partition, group_id, member_id, coalesce(client_id, 'None') AS client_id, client_host, log_offset, since,
  timeout_ms, member_state,
  CASE
    WHEN member_state LIKE 'UNREVOKED%' THEN 'does not release partitions that it must release'
    WHEN member_state LIKE 'UNRELEASED%' THEN 'waits for partitions that another member has not released'
    WHEN member_epoch IS NULL THEN format('has no assignment at all, the group''s is at epoch {}', assignment_epoch)
    ELSE format('is at epoch {}, the assignment at {}', member_epoch, assignment_epoch)
  END AS how_far
FROM (
  SELECT members.*, assignment_epoch, state_since AS since, coalesce(rebalance_timeout_ms, 300000::BIGINT) AS timeout_ms
  FROM group_members AS members JOIN groups USING (offsets_partition, group_id)
  WHERE state = 'Reconciling' AND state_since <= $known_until
)
LEFT JOIN read USING (offsets_partition)
WHERE client_host <> '' AND member_epoch IS DISTINCT FROM -2
  AND NOT coalesce(member_state = 'STABLE' AND member_epoch = assignment_epoch, false)
  AND since <= coalesce(known_until, $known_until) - to_milliseconds(2 * timeout_ms)
