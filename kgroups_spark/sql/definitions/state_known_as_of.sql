-- The knowledge of a moment in the histories of __share_group_state and __transaction_state: complete, incomplete, reduced, before or after, as known_as_of for __consumer_offsets; no row for a log that was not read
--
-- argument ts TIMESTAMP: The moment; null: now, which is complete
-- log STRING: __share_group_state or __transaction_state
-- known STRING: complete: nothing is missing; reduced: kgroups maintain --keep has reduced history there, and functions fail for the partitions concerned; incomplete: records were lost before they were read, so that entries may be missing or stale; before, after: the moment is outside the history

-- DuckDB replaces an argument's name by its text, so none of our names there may be one that a caller uses.
SELECT kgroups_log AS log, kgroups_known AS known
FROM (
  SELECT kgroups_log,
    CASE
      WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_reduced_to THEN 'reduced'
      WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_begins THEN 'before'
      WHEN CAST(ts AS TIMESTAMPTZ) > kgroups_ends THEN 'after'
      WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_incomplete_to THEN 'incomplete'
      ELSE 'complete'
    END AS kgroups_known
  FROM (
    SELECT log AS kgroups_log, begins AS kgroups_begins, reduced_to AS kgroups_reduced_to,
      incomplete_to AS kgroups_incomplete_to, ends AS kgroups_ends
    FROM main.known_histories
    WHERE log <> '__consumer_offsets'
  ) AS kgroups_known_histories
) AS kgroups_known_of_logs
