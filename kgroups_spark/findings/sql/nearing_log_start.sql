-- warning by topic_offsets (audit_id == $audit_id): records are about to be deleted before a group reads them
-- of a group the first by unread DESC, topic, partition
-- {percent}% of the records that {topic}-{partition} still has are unread by {group_id}, whose offset {committed_offset} is
-- {ahead:counted record} after the log's start[; and so it is with {others:counted other partition}]. Since
-- {seen_before:time} the start moved on by {moved:counted record}, faster than the group: at this pace it reaches the offset
-- in {left_ms:duration}, and from then on records are lost unread. Keep the topic's records longer (retention.ms,
-- retention.bytes), or add consumers

WITH margins AS (
  SELECT *, committed_offset - log_start_offset AS ahead, offset_before - start_before AS ahead_before,
    (log_end_offset - committed_offset) / (log_end_offset - log_start_offset) AS unread
  FROM _since_before
  WHERE committed_offset >= log_start_offset AND log_start_offset > start_before AND log_end_offset > log_start_offset
)
SELECT offsets_partition, group_id, topic, partition, committed_offset, ahead, log_offset, seen_before,
  log_start_offset - start_before AS moved, CAST(floor(100 * unread) AS INTEGER) AS percent,
  CAST(ahead / (ahead_before - ahead) * (epoch_ms(seen_at) - epoch_ms(seen_before)) AS BIGINT) AS left_ms, unread
FROM margins
WHERE unread >= 0.8 AND ahead < ahead_before
