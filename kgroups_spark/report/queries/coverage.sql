-- The part of each partition’s log that is in the tables, by log offset
-- offsets_partition Partition :count; first_log_offset First record :count; complete_from Complete from :count;
-- read_to Read to :count; lost Lost :count; newest_log_timestamp- Newest record (UTC) :time

SELECT coverage.offsets_partition, coverage.first_log_offset, coverage.complete_from, coverage.read_to,
  coverage.complete_from <= coverage.first_log_offset AS is_complete,
  totals.offsets_lost AS lost, totals.newest_log_timestamp
FROM coverage
LEFT JOIN log_totals AS totals ON totals.offsets_partition = coverage.offsets_partition
ORDER BY coverage.offsets_partition
