-- Committed offsets of Stable groups that no member is assigned.
SELECT offsets_partition, group_id, topic, partition, log_offset, commit_timestamp
FROM committed_offsets
SEMI JOIN _unlike USING (offsets_partition, group_id)
SEMI JOIN (FROM groups WHERE state = 'Stable') USING (offsets_partition, group_id)
ANTI JOIN (FROM _held WHERE how = 'assigned') USING (offsets_partition, group_id, topic, partition)
