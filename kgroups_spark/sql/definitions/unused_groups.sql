-- Groups without members, by the time for which nobody has used them: no member, no commit, no state of a share partition. A group whose consumers only fetch offsets looks unused, too
--
-- offsets_partition, group_id, group_type, state of groups
-- idle_since: The latest trace of use: its last member left, its newest commit (in history alone: the hour of it), or share-partition state was stored; null: no trace has a time
-- offset_count: Its committed offsets; of a share group its start offsets
-- expires_at TIMESTAMP: When the first of them expires, if the group stays as it is; null: none does

WITH used AS (
  SELECT offsets_partition, group_id, commit_timestamp AS used_at FROM committed_offsets
  UNION ALL
  SELECT offsets_partition, group_id, commit_timestamp FROM pending_offsets
  UNION ALL
  SELECT offsets_partition, group_id, hour FROM group_traffic WHERE commits > 0
  UNION ALL
  SELECT offsets_partition, group_id, greatest(state_since, current_state_timestamp) FROM groups
  UNION ALL
  SELECT offsets_partition, group_id, log_timestamp FROM groups JOIN share_partitions USING (group_id)
),
newest AS (
  SELECT offsets_partition, group_id, max(used_at) AS idle_since FROM used GROUP BY offsets_partition, group_id
),
held AS (
  SELECT offsets_partition, group_id, count(*) AS offset_count, min(expires_at) AS expires_at
  FROM (
    SELECT offsets_partition, group_id, expires_at FROM offset_expiry
    UNION ALL
    SELECT offsets_partition, group_id, NULL FROM groups JOIN share_partitions USING (group_id)
    WHERE start_offset IS NOT NULL
  )
  GROUP BY offsets_partition, group_id
)
SELECT groups.*, newest.idle_since, coalesce(held.offset_count, 0) AS offset_count, held.expires_at
FROM groups
LEFT JOIN newest USING (offsets_partition, group_id)
LEFT JOIN held USING (offsets_partition, group_id)
WHERE groups.member_count = 0
