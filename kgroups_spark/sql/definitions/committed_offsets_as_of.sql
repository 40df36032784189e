-- Committed offsets as of a moment (column known shows whether history is complete for it; for an empty answer, ask known_as_of), by the rules of Kafka 3.8 and newer, regardless of the audits' release
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of committed_offsets
-- commit_timestamp: Time of the commit; null: none, or outside the years 1 to 9999
-- expire_timestamp: When it will expire (clients before 2.1); null: not given, or outside the years 1 to 9999
-- audit_id: The audit that read the record (table audits)
-- is_orphan: No group of that id existed
-- known of groups_as_of

WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT commits.*, ends.end_offset,
    -- The record in effect with the highest log offset of its key is the committed offset.
    row_number() OVER (
      PARTITION BY commits.offsets_partition, commits.group_id, commits.topic, commits.partition
      ORDER BY commits.log_offset DESC
    ) AS number
  FROM main.effective_commits AS commits
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = commits.offsets_partition
  WHERE commits.effective_log_offset < ends.end_offset
    OR (ends.end_offset IS NULL AND commits.effective_log_offset IS NOT NULL)
),
existing AS (
  SELECT offsets_partition, group_id, is_removed, log_offset,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS next_log_offset
  FROM main.group_versions
)
SELECT committed.*,
  existing.group_id IS NULL AS is_orphan,
  (SELECT kgroups_known FROM kgroups_known) AS known
FROM numbered AS committed
LEFT JOIN existing
  ON existing.offsets_partition = committed.offsets_partition AND existing.group_id = committed.group_id
  AND NOT existing.is_removed
  AND (committed.end_offset IS NULL OR existing.log_offset < committed.end_offset)
  AND (existing.next_log_offset IS NULL OR existing.next_log_offset >= committed.end_offset)
WHERE committed.number = 1 AND committed.committed_offset IS NOT NULL
  AND (committed.corrected_log_offset IS NULL OR committed.corrected_log_offset > committed.end_offset)
