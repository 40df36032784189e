CREATE OR REPLACE TEMPORARY FUNCTION committed_offsets_as_of(
  ts TIMESTAMP COMMENT 'The moment: the log of each partition counts before its first record with a later time; null: all that was read'
)
RETURNS TABLE (
  audit_id BIGINT COMMENT 'The audit that read the record (table audits)',
  offsets_partition INT COMMENT 'Partition of __consumer_offsets',
  group_id STRING COMMENT 'Group',
  topic STRING COMMENT 'Topic',
  partition INT COMMENT 'Partition of the topic',
  committed_offset BIGINT COMMENT 'Offset that the group committed: the next one it wants to read',
  leader_epoch INT COMMENT 'Leader epoch of the record before it; null: not given',
  metadata STRING COMMENT 'Text the client left with it; '''' is normal',
  commit_timestamp TIMESTAMP COMMENT 'Time of the commit, at most the end of year 9999; null: none',
  expire_timestamp TIMESTAMP COMMENT 'When it shall expire (clients before 2.1); null: not given',
  topic_id STRING COMMENT 'Topic id; null: not logged',
  record_type SMALLINT COMMENT 'Type of the record: 0 or 1',
  value_version SMALLINT COMMENT 'Version of the record''s value',
  log_offset BIGINT COMMENT 'Record that committed it',
  is_orphan BOOLEAN COMMENT 'No group of that id existed',
  known STRING COMMENT 'What the history knows of the moment, as known_as_of(ts) says: complete, incomplete, before or after'
)
COMMENT 'Committed offsets as of a moment (column known says whether the history has all there was; of an empty answer known_as_of says it), by the rules of Kafka 3.8 and newer, whatever the audits used'
RETURN
WITH numbered AS (
  SELECT
    commits.*,
    ends.end_offset,
    -- Of the records in effect for one key the one with the greatest log offset is the committed offset.
    row_number() OVER (
      PARTITION BY commits.offsets_partition, commits.group_id, commits.topic, commits.partition
      ORDER BY commits.log_offset DESC
    ) AS number
  FROM effective_commits AS commits
  LEFT JOIN log_ends_as_of(ts) AS ends ON ends.offsets_partition = commits.offsets_partition
  WHERE commits.effective_log_offset < ends.end_offset
    OR (ends.end_offset IS NULL AND commits.effective_log_offset IS NOT NULL)
),
existing AS (
  SELECT
    offsets_partition,
    group_id,
    is_removed,
    log_offset,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS next_log_offset
  FROM group_versions
)
SELECT
  committed.audit_id,
  committed.offsets_partition,
  committed.group_id,
  committed.topic,
  committed.partition,
  committed.committed_offset,
  committed.leader_epoch,
  committed.metadata,
  committed.commit_timestamp,
  committed.expire_timestamp,
  committed.topic_id,
  committed.record_type,
  committed.value_version,
  committed.log_offset,
  existing.group_id IS NULL AS is_orphan,
  known_as_of(ts) AS known
FROM numbered AS committed
LEFT JOIN existing
  ON existing.offsets_partition = committed.offsets_partition
  AND existing.group_id = committed.group_id
  AND NOT existing.is_removed
  AND (committed.end_offset IS NULL OR existing.log_offset < committed.end_offset)
  AND (existing.next_log_offset IS NULL OR existing.next_log_offset >= committed.end_offset)
WHERE committed.number = 1
  AND committed.committed_offset IS NOT NULL
  AND (committed.corrected_log_offset IS NULL OR committed.corrected_log_offset > committed.end_offset)
