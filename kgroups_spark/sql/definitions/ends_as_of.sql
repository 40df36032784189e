-- The end of each partition's log as of a moment; a partition without a row ended later and counts as a whole. Fails where kgroups maintain --keep has reduced history there
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- argument logs STRING = NULL: A pattern of LIKE for the names of logs, as %_state; null: all
-- log STRING: __consumer_offsets, __share_group_state or __transaction_state
-- partition INT: Partition of that log
-- end_offset BIGINT: First record with a later time: it and the records after it do not count

-- DuckDB replaces an argument's name by its text, so none of our names there may be one that a caller uses.
-- Tables are named with their schema, or a caller's WITH could hide them.
WITH kgroups_ends AS (
  SELECT kgroups_log, kgroups_partition, min(kgroups_log_offset) AS kgroups_end_offset
  FROM (
    SELECT log AS kgroups_log, partition AS kgroups_partition, log_offset AS kgroups_log_offset,
      log_timestamp AS kgroups_log_timestamp
    FROM main.log_times
  ) AS kgroups_records
  WHERE coalesce(kgroups_log LIKE logs, true) AND kgroups_log_timestamp > CAST(ts AS TIMESTAMPTZ)
    AND (kgroups_log_timestamp > (SELECT max(believed_until) FROM main.last_audit)) IS NOT TRUE
  GROUP BY kgroups_log, kgroups_partition
),
kgroups_reduced AS (
  SELECT log AS kgroups_log, partition AS kgroups_partition, reduced_to AS kgroups_reduced_to FROM _reduced
),
kgroups_known AS (
  SELECT kgroups_log, kgroups_partition,
    CASE
      WHEN kgroups_end_offset < kgroups_reduced_to THEN CAST(error(
        'as of ' || CAST(ts AS VARCHAR) || ' is not known: the history of partition ' || kgroups_partition
        || ' of ' || kgroups_log || ' below log offset ' || kgroups_reduced_to || ' has been reduced '
        || '(kgroups maintain --keep); ask for a later time'
      ) AS BIGINT)
      ELSE kgroups_end_offset
    END AS kgroups_known_end_offset
  FROM kgroups_ends
  LEFT JOIN kgroups_reduced USING (kgroups_log, kgroups_partition)
)
SELECT kgroups_log AS log, kgroups_partition AS partition, kgroups_known_end_offset AS end_offset
FROM kgroups_known
