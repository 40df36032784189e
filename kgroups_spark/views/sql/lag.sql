-- Committed offsets and the ends of their topics, as the newest audit of a live cluster found them; without such an audit nothing but the committed offsets is known
--
-- columns of committed_offsets
-- log_start_offset: First offset that the topic's partition still had; null: not known
-- log_end_offset: High watermark of the topic's partition; null: not known
-- lag: log_end_offset - committed_offset, as Kafka's own tool has it; negative: committed beyond the end, or after seen_at; null: the end is not known, or committed_offset is -1
-- will_reset: The committed offset lies before the log's start: a consumer that resumes there begins where its auto.offset.reset says; null: the start is not known
-- seen_at: When the audit asked for the topic's partition; null: none has

WITH seen AS (
  SELECT * FROM topic_offsets WHERE audit_id = (SELECT max(audit_id) FROM topic_offsets)
)
SELECT
  committed.*,
  seen.log_start_offset,
  seen.log_end_offset,
  CASE WHEN committed.committed_offset <> -1 THEN seen.log_end_offset - committed.committed_offset END AS lag,
  committed.committed_offset < seen.log_start_offset AS will_reset,
  seen.seen_at
FROM committed_offsets AS committed
LEFT JOIN seen ON seen.topic = committed.topic AND seen.partition = committed.partition
