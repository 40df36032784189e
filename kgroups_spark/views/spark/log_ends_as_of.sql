CREATE OR REPLACE TEMPORARY FUNCTION log_ends_as_of(
  ts TIMESTAMP COMMENT 'The moment: the log of each partition counts before its first record with a later time; null: all that was read'
)
RETURNS TABLE (
  offsets_partition INT COMMENT 'Partition of __consumer_offsets',
  end_offset BIGINT COMMENT 'Its first record with a later time: this one and what follows do not count'
)
COMMENT 'Per partition of __consumer_offsets where its log ends as of a moment; a partition without a row ended later, it counts as a whole. Fails where kgroups maintain --keep has reduced history there'
RETURN
WITH records AS (
  SELECT offsets_partition, log_offset, log_timestamp FROM offset_commits
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM group_records
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM transaction_markers
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM quarantine
),
ends AS (
  SELECT offsets_partition, min(log_offset) AS end_offset
  FROM records
  WHERE log_timestamp > ts
    AND (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
  GROUP BY offsets_partition
),
reduced AS (
  SELECT offsets_partition, max(log_offset) AS reduced_to
  FROM state_corrections
  WHERE correction = 'baseline'
  GROUP BY offsets_partition
)
SELECT
  ends.offsets_partition,
  CASE
    WHEN ends.end_offset < reduced.reduced_to THEN CAST(raise_error(
      'as of ' || CAST(ts AS STRING) || ' is not known: the history of offsets partition ' || ends.offsets_partition
      || ' below log offset ' || reduced.reduced_to || ' has been reduced to the last record of each key '
      || '(kgroups maintain --keep); ask for a later time'
    ) AS BIGINT)
    ELSE ends.end_offset
  END AS end_offset
FROM ends
LEFT JOIN reduced ON reduced.offsets_partition = ends.offsets_partition
