CREATE OR REPLACE MACRO groups_as_of(ts) AS TABLE
WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT
    versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM main.group_versions AS versions
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = versions.offsets_partition
  WHERE ends.end_offset IS NULL OR versions.log_offset < ends.end_offset
)
SELECT
  audit_id,
  offsets_partition,
  log_offset,
  log_timestamp,
  group_id,
  group_type,
  state,
  is_simple,
  protocol_type,
  protocol,
  generation,
  group_epoch,
  assignment_epoch,
  leader,
  current_state_timestamp,
  state_since,
  member_count,
  metadata_hash,
  resolved_regex_topics,
  is_misplaced,
  (SELECT kgroups_known FROM kgroups_known) AS known
FROM numbered
WHERE number = 1 AND NOT is_removed;

COMMENT ON MACRO TABLE groups_as_of IS 'Groups that existed as of a moment (column known says whether the history has all there was; of an empty answer known_as_of says it). ts: The moment: the log of each partition counts before its first record with a later time; null: all that was read';
