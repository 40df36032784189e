-- Groups that existed as of a moment (column known shows whether history is complete for it; for an empty answer, ask known_as_of)
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of group_versions but is_removed
-- log_offset: Record that put the group in this state
-- log_timestamp: Log time of that record; null: it has none
-- known STRING: The history's knowledge of the moment, as from known_as_of(ts): complete, incomplete, reduced, before or after

WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM main.group_versions AS versions
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = versions.offsets_partition
  WHERE ends.end_offset IS NULL OR versions.log_offset < ends.end_offset
)
SELECT *, (SELECT kgroups_known FROM kgroups_known) AS known
FROM numbered
WHERE number = 1 AND NOT is_removed
