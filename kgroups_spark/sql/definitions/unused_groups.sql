-- Groups without members, by the time for which nobody has used them: no member, no commit, no state of a share partition. A group whose consumers only fetch offsets looks unused, too
--
-- offsets_partition, group_id, group_type, state of groups
-- idle_since: The latest trace of use: its last member left, its newest commit (in history alone: the hour of it), or share-partition state was stored; null: no trace has a time
-- offset_count: Its committed offsets; of a share group its start offsets
-- expires_at TIMESTAMP: When the first of them expires, if the group stays as it is; null: none does

WITH used AS (
  SELECT offsets_partition, group_id, max(commit_timestamp) AS used_at FROM committed_offsets GROUP BY offsets_partition, group_id
  UNION ALL
  SELECT offsets_partition, group_id, max(commit_timestamp) FROM pending_offsets GROUP BY offsets_partition, group_id
  UNION ALL
  SELECT offsets_partition, group_id, max(hour) FROM group_traffic WHERE commits > 0 GROUP BY offsets_partition, group_id
  UNION ALL
  SELECT offsets_partition, group_id, greatest(state_since, current_state_timestamp) FROM groups
  UNION ALL
  SELECT groups.offsets_partition, groups.group_id, max(shares.log_timestamp)
  FROM groups
  JOIN share_partitions AS shares ON shares.group_id = groups.group_id
  WHERE groups.group_type = 'share'
  GROUP BY groups.offsets_partition, groups.group_id
),
newest AS (
  SELECT offsets_partition AS used_partition, group_id AS used_group, max(used_at) AS idle_since
  FROM used
  GROUP BY offsets_partition, group_id
),
held AS (
  SELECT held_partition, held_group, sum(offsets) AS offset_count, min(expires_at) AS expires_at
  FROM (
    SELECT offsets_partition AS held_partition, group_id AS held_group, count(*) AS offsets, min(expires_at) AS expires_at
    FROM offset_expiry
    GROUP BY offsets_partition, group_id
    UNION ALL
    SELECT groups.offsets_partition, groups.group_id, count(shares.start_offset), NULL
    FROM groups
    JOIN share_partitions AS shares ON shares.group_id = groups.group_id
    WHERE groups.group_type = 'share'
    GROUP BY groups.offsets_partition, groups.group_id
  )
  GROUP BY held_partition, held_group
)
SELECT
  groups.*,
  newest.idle_since,
  CAST(coalesce(held.offset_count, 0) AS BIGINT) AS offset_count,
  held.expires_at
FROM groups
LEFT JOIN newest ON newest.used_partition = groups.offsets_partition AND newest.used_group = groups.group_id
LEFT JOIN held ON held.held_partition = groups.offsets_partition AND held.held_group = groups.group_id
WHERE groups.member_count = 0
