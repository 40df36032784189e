-- Where kgroups maintain --keep has reduced history: below this log offset of each partition of each log.

SELECT coalesce(log, '__consumer_offsets') AS log, offsets_partition AS partition, max(log_offset) AS reduced_to
FROM main.checkpoints
WHERE reason = 'keep' AND record_offset IS NULL
GROUP BY log, offsets_partition
