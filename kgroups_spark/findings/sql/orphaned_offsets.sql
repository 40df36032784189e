-- error by committed_offsets (is_orphan == true): committed offsets of a group that does not exist
--
-- {offsets:counted committed offset} on {topics:counted topic} belong to {group_id}, which no longer exists: its record
-- was deleted, its offsets were not. The coordinator answers as if there were none and never expires them. Consumers
-- start by auto.offset.reset, and the next record that names the group restores all of these offsets. Keep a copy
-- (kgroups export-offsets {group_id:option}), or let the group start from nothing and reset it

-- T30
SELECT offsets_partition, group_id,
  CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END AS topic,
  max(log_offset) AS log_offset, count(*) AS offsets,
  count(DISTINCT topic) AS topics
FROM committed_offsets
WHERE is_orphan
GROUP BY offsets_partition, group_id
