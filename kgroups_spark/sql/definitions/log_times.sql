-- Offset and time in its log of each record that was read
--
-- log: __consumer_offsets, __share_group_state or __transaction_state
-- partition: Partition of that log
-- log_offset, log_timestamp of offset_commits

SELECT '__consumer_offsets' AS log, offsets_partition AS partition, log_offset, log_timestamp FROM offset_commits
UNION ALL SELECT '__consumer_offsets', offsets_partition, log_offset, log_timestamp FROM group_records
UNION ALL SELECT '__consumer_offsets', offsets_partition, log_offset, log_timestamp FROM transaction_markers
UNION ALL SELECT '__consumer_offsets', offsets_partition, log_offset, log_timestamp FROM quarantine
UNION ALL SELECT '__share_group_state', state_partition, log_offset, log_timestamp FROM share_group_state_records
UNION ALL SELECT '__transaction_state', state_partition, log_offset, log_timestamp FROM transaction_state_records
UNION ALL SELECT log, state_partition, log_offset, log_timestamp FROM state_quarantine
