CREATE OR REPLACE TEMPORARY VIEW lag (
  audit_id COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  group_id COMMENT 'Group',
  topic COMMENT 'Topic',
  partition COMMENT 'Partition of the topic',
  committed_offset COMMENT 'Offset that the group committed: the next one it wants to read',
  leader_epoch COMMENT 'Leader epoch of the record before it; null: not given',
  metadata COMMENT 'Text the client left with it; '''' is normal',
  commit_timestamp COMMENT 'Time of the commit, at most the end of year 9999; null: none',
  expire_timestamp COMMENT 'When it shall expire (clients before 2.1); null: not given',
  topic_id COMMENT 'Topic id; null: not logged',
  record_type COMMENT 'Type of the record: 0 or 1',
  value_version COMMENT 'Version of the record''s value',
  log_offset COMMENT 'Record that committed it',
  is_orphan COMMENT 'No group of that id exists: the broker neither shows nor expires it',
  log_start_offset COMMENT 'First offset that the topic''s partition still had; null: not known',
  log_end_offset COMMENT 'High watermark of the topic''s partition; null: not known',
  lag COMMENT 'log_end_offset - committed_offset, as Kafka''s own tool has it; negative: committed beyond the end, or after seen_at; null: the end is not known, or committed_offset is -1',
  will_reset COMMENT 'The committed offset lies before the log''s start: a consumer that resumes there begins where its auto.offset.reset says; null: the start is not known',
  seen_at COMMENT 'When the audit asked for the topic''s partition; null: none has'
)
COMMENT 'Committed offsets and the ends of their topics, as the newest audit of a live cluster found them; without such an audit nothing but the committed offsets is known'
AS
WITH seen AS (
  SELECT * FROM topic_offsets WHERE audit_id = (SELECT max(audit_id) FROM topic_offsets)
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
  committed.is_orphan,
  seen.log_start_offset,
  seen.log_end_offset,
  CASE WHEN committed.committed_offset <> -1 THEN seen.log_end_offset - committed.committed_offset END AS lag,
  committed.committed_offset < seen.log_start_offset AS will_reset,
  seen.seen_at
FROM committed_offsets AS committed
LEFT JOIN seen ON seen.topic = committed.topic AND seen.partition = committed.partition
