SELECT
  coverage.offsets_partition,
  coverage.first_log_offset,
  coverage.complete_from,
  coverage.read_to,
  coverage.complete_from <= coverage.first_log_offset AS is_complete,
  read.lost,
  read.newest_log_timestamp
FROM coverage
LEFT JOIN (
  SELECT
    offsets_partition,
    CAST(sum(lost_to - lost_from) AS BIGINT) AS lost,
    max(newest_log_timestamp) AS newest_log_timestamp
  FROM audit_partitions
  GROUP BY offsets_partition
) AS read ON read.offsets_partition = coverage.offsets_partition
ORDER BY coverage.offsets_partition
