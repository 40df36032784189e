-- Partitions that wait for their owner: those of a member's target assignment that it does not own yet, as of the last audit. In consumer and share groups; the log has no target of classic members, and streams members have tasks
--
-- offsets_partition, group_id of groups
-- topic: Topic; null: the log has only its id, and its name is unknown
-- topic_id: Topic id
-- partition of committed_offsets
-- wanted_by: Member in whose target assignment it is
-- held_by: Other member that owns it until it has released it; null: no member holds it, so wanted_by gets it with its next heartbeat; share group: always
-- is_asked: Whether held_by has been asked to release it; false: its next heartbeat does, or no member holds it
-- since: Log time from which on it has been in that target assignment; null: not known, as where the member's first record that is left (in the log, or after kgroups maintain --keep) has it already
-- revoking_since: Log time from which on held_by has been asked to release it; null: it has not been asked, or not known, as since
-- rebalance_timeout_ms: Rebalance timeout of held_by; null: no member holds it, or not logged
-- out_by: When the coordinator puts held_by out of the group if it has not released its partitions: revoking_since + rebalance_timeout_ms, later if the coordinator changed meanwhile; null: one is unknown, or held_by uses the classic protocol

WITH parts AS (
  SELECT
    offsets_partition, group_id, member_id, how, each.topic AS topic, each.topic_id AS topic_id,
    each.partition AS partition, group_type, rebalance_timeout_ms, uses_classic_protocol
  FROM (
    SELECT *, 'assigned' AS how, unnest(assigned_partitions) AS each FROM group_members
    UNION ALL
    SELECT *, 'pending' AS how, unnest(pending_revocation_partitions) AS each FROM group_members
    UNION ALL
    SELECT *, 'target' AS how, unnest(target_partitions) AS each FROM group_members
  )
  JOIN (SELECT offsets_partition, group_id, group_type FROM groups) AS types USING (offsets_partition, group_id)
  WHERE group_type IN ('consumer', 'share')
),
owned AS (
  SELECT * FROM parts WHERE how <> 'target'
),
-- Members of share groups share partitions.
held AS (
  SELECT * EXCLUDE (member_id, topic), member_id AS held_by FROM owned WHERE group_type = 'consumer'
),
wanted AS (
  SELECT
    offsets_partition, group_id, member_id, target.topic, topic_id, partition, held_by, held.how = 'pending' AS is_pending,
    held.rebalance_timeout_ms, held.uses_classic_protocol
  FROM (SELECT * FROM parts WHERE how = 'target') AS target
  ANTI JOIN owned USING (offsets_partition, group_id, member_id, topic_id, partition)
  LEFT JOIN held USING (offsets_partition, group_id, topic_id, partition)
),
-- History of these members alone.
versions AS (
  SELECT *,
    -- The rebalance timer begins with each record that changes what the member has to release.
    lag(log_offset) OVER its IS NOT NULL
      AND lag({'state': member_state, 'epoch': member_epoch, 'pending': pending_revocation_partitions}) OVER its
      IS DISTINCT FROM {'state': member_state, 'epoch': member_epoch, 'pending': pending_revocation_partitions} AS is_told
  FROM group_member_versions
  WHERE group_id IN (SELECT group_id FROM wanted)
  WINDOW its AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
),
told AS (
  SELECT offsets_partition, group_id, member_id AS held_by, max_by({'at': log_timestamp}, log_offset).at AS revoking_since
  FROM versions
  WHERE is_told
  GROUP BY offsets_partition, group_id, member_id
),
targets AS (
  SELECT
    offsets_partition, group_id, member_id, topic_id, partition, log_offset, log_timestamp,
    coalesce(list_contains(
      list_transform(target_partitions, lambda each: {'topic_id': each.topic_id, 'partition': each.partition}),
      {'topic_id': topic_id, 'partition': partition}
    ), FALSE) AS is_wanted
  FROM wanted
  JOIN versions USING (offsets_partition, group_id, member_id)
),
wanting AS (
  SELECT offsets_partition, group_id, member_id, topic_id, partition, min_by({'at': log_timestamp}, log_offset).at AS since
  FROM (
    SELECT *,
      max(CASE WHEN NOT is_wanted THEN log_offset END) OVER (
        PARTITION BY offsets_partition, group_id, member_id, topic_id, partition
      ) AS last_without
    FROM targets
  )
  WHERE log_offset > last_without
  GROUP BY offsets_partition, group_id, member_id, topic_id, partition
)
SELECT
  offsets_partition, group_id, topic, topic_id, partition, member_id AS wanted_by, held_by, coalesce(is_pending, FALSE) AS is_asked, since,
  CASE WHEN is_pending THEN revoking_since END AS revoking_since, rebalance_timeout_ms,
  CASE
    WHEN is_pending AND NOT uses_classic_protocol
      THEN make_timestamptz(1000 * (epoch_ms(revoking_since) + rebalance_timeout_ms))
  END AS out_by
FROM wanted
LEFT JOIN wanting USING (offsets_partition, group_id, member_id, topic_id, partition)
LEFT JOIN told USING (offsets_partition, group_id, held_by)
