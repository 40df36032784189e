-- The history's knowledge of a moment. complete: nothing is missing; reduced: kgroups maintain --keep has reduced history there, and functions fail for the partitions concerned; incomplete: offsets are missing in the log (compacted before it was read, or damaged), so that groups, members and offsets may be missing or stale; before, after: the moment is outside the history
--
-- argument ts TIMESTAMP: The moment; null: now, which is complete
-- returns STRING

-- DuckDB replaces an argument's name by its text, so none of our names there may be one that a caller uses.
SELECT
  CASE
    WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_reduced_to THEN 'reduced'
    WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_begins THEN 'before'
    WHEN CAST(ts AS TIMESTAMPTZ) > kgroups_ends THEN 'after'
    WHEN CAST(ts AS TIMESTAMPTZ) < kgroups_incomplete_to THEN 'incomplete'
    ELSE 'complete'
  END
FROM (
  SELECT begins AS kgroups_begins, reduced_to AS kgroups_reduced_to, incomplete_to AS kgroups_incomplete_to,
    ends AS kgroups_ends
  FROM main.known_history
) AS kgroups_known_history
