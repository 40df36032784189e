-- Every record that may begin a transaction. A record that was decoded later is in its own table.

SELECT offsets_partition, log_offset, log_timestamp FROM main.offset_commits WHERE is_transactional
UNION ALL
SELECT offsets_partition, log_offset, log_timestamp FROM main.group_records WHERE is_transactional
UNION ALL
SELECT offsets_partition, log_offset, log_timestamp FROM main.quarantine
WHERE producer_id IS NOT NULL AND record_count = 1 AND resolved_by IS NULL
