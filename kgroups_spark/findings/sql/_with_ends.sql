-- Committed offsets with the ends of their topics' logs, for which this audit asked after it had read the offsets: not those
-- of offsets partitions that it could not read. Clients read a negative offset as none.
SELECT offsets_partition, group_id, topic, partition, committed_offset, log_offset, commit_timestamp,
  ends.topic_id AS end_id, log_start_offset, log_end_offset, seen_at
FROM (SELECT * FROM topic_offsets WHERE audit_id = $audit_id) AS ends
JOIN committed_offsets AS committed USING (topic, partition)
LEFT JOIN read USING (offsets_partition)
WHERE committed_offset >= 0 AND was_given IS NOT FALSE AND (commit_timestamp > seen_at) IS NOT TRUE
