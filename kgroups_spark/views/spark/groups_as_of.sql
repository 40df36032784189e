CREATE OR REPLACE TEMPORARY FUNCTION groups_as_of(
  ts TIMESTAMP COMMENT 'The moment: the log of each partition counts before its first record with a later time; null: all that was read'
)
RETURNS TABLE (
  audit_id BIGINT COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition INT COMMENT 'Partition of __consumer_offsets',
  log_offset BIGINT COMMENT 'Record that made the group so',
  log_timestamp TIMESTAMP COMMENT 'Its log time; null: it has none',
  group_id STRING COMMENT 'Group',
  group_type STRING COMMENT 'classic, consumer, share or streams',
  state STRING COMMENT 'State in Kafka''s words, as the log alone tells it (a live PreparingRebalance is never logged)',
  is_simple BOOLEAN COMMENT 'The group only has offsets: nobody ever joined it, or its metadata is gone',
  protocol_type STRING COMMENT 'Classic: consumer, connect, ...; null: none (simple groups)',
  protocol STRING COMMENT 'Classic: name of the chosen protocol, as range; null: none or not classic',
  generation INT COMMENT 'Classic: generation; null: not classic',
  group_epoch INT COMMENT 'Consumer, share, streams: group epoch; null: classic',
  assignment_epoch INT COMMENT 'Consumer, share, streams: epoch of the target assignment; null: none yet, or classic',
  leader STRING COMMENT 'Classic: member id of the leader; null: none or not classic',
  current_state_timestamp TIMESTAMP COMMENT 'Classic: time of the state in the group''s own record; null: not logged',
  state_since TIMESTAMP COMMENT 'Log time of the record that led to the state; null: that record has no time',
  member_count INT COMMENT 'Members of the group',
  metadata_hash BIGINT COMMENT 'Consumer, share, streams: hash of the subscribed topics'' metadata; null: not logged',
  resolved_regex_topics MAP<STRING, ARRAY<STRING>> COMMENT 'Topics per subscribed expression; null: none',
  is_misplaced BOOLEAN COMMENT 'The group''s name does not hash to this partition; null: number of partitions unknown',
  known STRING COMMENT 'What the history knows of the moment, as known_as_of(ts) says: complete, incomplete, before or after'
)
COMMENT 'Groups that existed as of a moment (column known says whether the history has all there was; of an empty answer known_as_of says it)'
RETURN
WITH numbered AS (
  SELECT
    versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM group_versions AS versions
  LEFT JOIN log_ends_as_of(ts) AS ends ON ends.offsets_partition = versions.offsets_partition
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
  known_as_of(ts) AS known
FROM numbered
WHERE number = 1 AND NOT is_removed
