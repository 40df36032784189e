-- Records that could not be used, by reason
-- reason Reason; coordinator_fails Load would fail; entries Entries :count; records Records :count; partitions-
-- Partitions :count; newest- Newest (UTC) :time; example-! Example

SELECT reason, coordinator_fails, count(*) AS entries,
  CAST(sum(record_count) AS BIGINT) AS records,
  count(DISTINCT offsets_partition) AS partitions,
  max(log_timestamp) AS newest, min(detail) AS example
FROM quarantine
WHERE resolved_by IS NULL
GROUP BY reason, coordinator_fails
ORDER BY coordinator_fails DESC, entries DESC, reason
