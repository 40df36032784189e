-- Partitions that wait for their owner: those of a member's target assignment that it does not own yet, as of the last audit. In consumer and share groups; the log has no target of classic members, and streams members have tasks
--
-- offsets_partition, group_id of groups
-- topic: Topic; null: the log has only its id, and its name is unknown
-- topic_id: Topic id
-- partition of committed_offsets
-- wanted_by: Member in whose target assignment it is
-- held_by: Other member that owns it until it has released it; null: no member holds it, so wanted_by gets it with its next heartbeat; share group: always
-- since: Log time from which on it has been in that target assignment; null: not known
-- revoking_since: Log time from which on held_by has been asked to release it; null: it has not been asked (its next heartbeat does), or no member holds it
-- rebalance_timeout_ms: Rebalance timeout of held_by; null: no member holds it, or not logged
-- out_by: When the coordinator puts held_by out of the group if it has not released its partitions: revoking_since + rebalance_timeout_ms, later if the coordinator changed meanwhile; null: one is unknown, or held_by uses the classic protocol

WITH members AS (
  SELECT members.*, group_type
  FROM group_members AS members
  JOIN groups ON groups.offsets_partition = members.offsets_partition AND groups.group_id = members.group_id
  WHERE group_type IN ('consumer', 'share')
),
held AS (
  SELECT
    offsets_partition,
    group_id,
    member_id,
    group_type,
    each.topic_id AS topic_id,
    each.partition AS partition,
    is_pending,
    rebalance_timeout_ms,
    uses_classic_protocol
  FROM (
    SELECT *, unnest(assigned_partitions) AS each, FALSE AS is_pending FROM members
    UNION ALL
    SELECT *, unnest(pending_revocation_partitions) AS each, TRUE AS is_pending FROM members
  )
),
wanted AS (
  SELECT
    target.offsets_partition,
    target.group_id,
    target.member_id,
    target.each.topic AS topic,
    target.each.topic_id AS topic_id,
    target.each.partition AS partition,
    max(held.member_id) AS held_by,
    bool_or(held.is_pending) AS is_pending,
    max(held.rebalance_timeout_ms) AS rebalance_timeout_ms,
    bool_or(held.uses_classic_protocol) AS uses_classic_protocol
  FROM (SELECT *, unnest(target_partitions) AS each FROM members) AS target
  LEFT JOIN held AS own
    ON own.offsets_partition = target.offsets_partition
    AND own.group_id = target.group_id
    AND own.member_id = target.member_id
    AND own.topic_id = target.each.topic_id
    AND own.partition = target.each.partition
  LEFT JOIN held
    ON held.offsets_partition = target.offsets_partition
    AND held.group_id = target.group_id
    AND held.member_id <> target.member_id
    AND held.topic_id = target.each.topic_id
    AND held.partition = target.each.partition
    AND held.group_type = 'consumer'
  WHERE own.member_id IS NULL
  GROUP BY ALL
),
-- History of these members alone.
versions AS (
  SELECT
    *,
    -- The rebalance timer begins with each record that changes what the member has to release.
    lag({'state': member_state, 'epoch': member_epoch, 'pending': pending_revocation_partitions}) OVER its
      IS DISTINCT FROM {'state': member_state, 'epoch': member_epoch, 'pending': pending_revocation_partitions} AS is_told
  FROM group_member_versions
  WHERE group_id IN (SELECT group_id FROM wanted)
  WINDOW its AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
),
told AS (
  SELECT offsets_partition, group_id, member_id, max_by({'at': log_timestamp}, log_offset).at AS revoking_since
  FROM versions
  WHERE is_told
  GROUP BY offsets_partition, group_id, member_id
),
targets AS (
  SELECT
    wanted.offsets_partition,
    wanted.group_id,
    wanted.member_id,
    wanted.topic_id,
    wanted.partition,
    versions.log_offset,
    versions.log_timestamp,
    coalesce(
      list_contains(
        list_transform(target_partitions, lambda each: {'topic_id': each.topic_id, 'partition': each.partition}),
        {'topic_id': wanted.topic_id, 'partition': wanted.partition}
      ),
      FALSE
    ) AS is_wanted
  FROM wanted
  JOIN versions
    ON versions.offsets_partition = wanted.offsets_partition
    AND versions.group_id = wanted.group_id
    AND versions.member_id = wanted.member_id
),
wanting AS (
  SELECT offsets_partition, group_id, member_id, topic_id, partition, min_by({'at': log_timestamp}, log_offset).at AS since
  FROM (
    SELECT
      *,
      max(CASE WHEN NOT is_wanted THEN log_offset END) OVER (
        PARTITION BY offsets_partition, group_id, member_id, topic_id, partition
      ) AS last_without
    FROM targets
  )
  WHERE coalesce(log_offset > last_without, TRUE)
  GROUP BY offsets_partition, group_id, member_id, topic_id, partition
)
SELECT
  wanted.offsets_partition,
  wanted.group_id,
  wanted.topic,
  wanted.topic_id,
  wanted.partition,
  wanted.member_id AS wanted_by,
  wanted.held_by,
  wanting.since,
  CASE WHEN wanted.is_pending THEN told.revoking_since END AS revoking_since,
  wanted.rebalance_timeout_ms,
  CASE
    WHEN wanted.is_pending AND NOT wanted.uses_classic_protocol
      THEN make_timestamptz(1000 * (epoch_ms(told.revoking_since) + wanted.rebalance_timeout_ms))
  END AS out_by
FROM wanted
LEFT JOIN wanting
  ON wanting.offsets_partition = wanted.offsets_partition
  AND wanting.group_id = wanted.group_id
  AND wanting.member_id = wanted.member_id
  AND wanting.topic_id = wanted.topic_id
  AND wanting.partition = wanted.partition
LEFT JOIN told
  ON told.offsets_partition = wanted.offsets_partition
  AND told.group_id = wanted.group_id
  AND told.member_id = wanted.held_by
