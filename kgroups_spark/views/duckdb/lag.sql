CREATE OR REPLACE VIEW lag AS
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
LEFT JOIN seen ON seen.topic = committed.topic AND seen.partition = committed.partition;

COMMENT ON VIEW lag IS 'Committed offsets and the ends of their topics, as the newest audit of a live cluster found them; without such an audit nothing but the committed offsets is known';
COMMENT ON COLUMN lag.audit_id IS 'The audit that wrote the row (table audits)';
COMMENT ON COLUMN lag.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN lag.group_id IS 'Group';
COMMENT ON COLUMN lag.topic IS 'Topic';
COMMENT ON COLUMN lag.partition IS 'Partition of the topic';
COMMENT ON COLUMN lag.committed_offset IS 'Offset that the group committed: the next one it wants to read';
COMMENT ON COLUMN lag.leader_epoch IS 'Leader epoch of the record before it; null: not given';
COMMENT ON COLUMN lag.metadata IS 'Text the client left with it; '''' is normal';
COMMENT ON COLUMN lag.commit_timestamp IS 'Time of the commit, at most the end of year 9999; null: none';
COMMENT ON COLUMN lag.expire_timestamp IS 'When it shall expire (clients before 2.1); null: not given';
COMMENT ON COLUMN lag.topic_id IS 'Topic id; null: not logged';
COMMENT ON COLUMN lag.record_type IS 'Type of the record: 0 or 1';
COMMENT ON COLUMN lag.value_version IS 'Version of the record''s value';
COMMENT ON COLUMN lag.log_offset IS 'Record that committed it';
COMMENT ON COLUMN lag.is_orphan IS 'No group of that id exists: the broker neither shows nor expires it';
COMMENT ON COLUMN lag.log_start_offset IS 'First offset that the topic''s partition still had; null: not known';
COMMENT ON COLUMN lag.log_end_offset IS 'High watermark of the topic''s partition; null: not known';
COMMENT ON COLUMN lag.lag IS 'log_end_offset - committed_offset, as Kafka''s own tool has it; negative: committed beyond the end, or after seen_at; null: the end is not known, or committed_offset is -1';
COMMENT ON COLUMN lag.will_reset IS 'The committed offset lies before the log''s start: a consumer that resumes there begins where its auto.offset.reset says; null: the start is not known';
COMMENT ON COLUMN lag.seen_at IS 'When the audit asked for the topic''s partition; null: none has';
