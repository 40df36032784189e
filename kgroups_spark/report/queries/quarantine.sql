SELECT reason, coordinator_fails, count(*) AS entries,
  CAST(sum(record_count) AS BIGINT) AS records,
  count(DISTINCT offsets_partition) AS partitions,
  max(log_timestamp) AS newest, min(detail) AS example
FROM quarantine
WHERE resolved_by IS NULL
GROUP BY reason, coordinator_fails
ORDER BY coordinator_fails DESC, entries DESC, reason
