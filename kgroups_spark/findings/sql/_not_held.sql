-- Committed offsets that no member is assigned, of groups with members.
SELECT offsets_partition, group_id, topic, partition, log_offset, commit_timestamp
FROM committed_offsets
SEMI JOIN _unlike USING (offsets_partition, group_id)
SEMI JOIN (FROM groups WHERE member_count > 0) USING (offsets_partition, group_id)
ANTI JOIN (FROM _held WHERE how = 'assigned') USING (offsets_partition, group_id, topic, partition)
