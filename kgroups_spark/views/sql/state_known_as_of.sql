-- The knowledge that the histories of __share_group_state and __transaction_state have of a moment: complete, incomplete, before or after, as known_as_of says of __consumer_offsets; no row of a log that was not read
--
-- argument ts TIMESTAMP: The moment; null: now, which is complete
-- log STRING: __share_group_state or __transaction_state
-- known STRING: complete: all there was; incomplete: records were gone before they were read, so that something may be missing, or an older state shown; before, after: the moment lies outside of the history

-- DuckDB puts the text of an argument where its name stands: there, none of our names may be one that a caller uses.
SELECT kgroups_log AS log, kgroups_known AS known
FROM (
  SELECT
    kgroups_log,
    CASE
      WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_begins THEN 'before'
      WHEN CAST(ts AS TIMESTAMPTZ) > kgroups_ends THEN 'after'
      WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_incomplete_to THEN 'incomplete'
      ELSE 'complete'
    END AS kgroups_known
  FROM (
    SELECT
      log AS kgroups_log,
      begins AS kgroups_begins,
      incomplete_to AS kgroups_incomplete_to,
      ends AS kgroups_ends
    FROM main.known_state_history
  ) AS kgroups_known_state_history
) AS kgroups_known_of_logs
