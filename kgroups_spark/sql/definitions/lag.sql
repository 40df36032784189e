-- Committed offsets and the log ends of their topics, from the newest audit of a live cluster; without such an audit only the committed offsets are known
--
-- columns of committed_offsets
-- log_start_offset: First offset in the topic's partition; null: unknown
-- log_end_offset: High watermark of the topic's partition; null: unknown
-- lag: log_end_offset - committed_offset, as in Kafka's own tool; negative: committed beyond the end, or after seen_at; null: the end is unknown, or committed_offset is negative, which clients read as none
-- records_lost: Records of that lag that the topic no longer has, log_start_offset - committed_offset; 0: none; null: as lag
-- will_reset: The committed offset is below the log's start or beyond its end, so a consumer that resumes there is reset by auto.offset.reset; null: the log's start and end are unknown, or it is beyond an end that was seen before the commit
-- seen_at: When the audit asked for the topic's partition; null: no audit has

SELECT committed.*, seen.log_start_offset, seen.log_end_offset,
  CASE WHEN committed.committed_offset >= 0 THEN seen.log_end_offset - committed.committed_offset END AS lag,
  CASE
    WHEN committed.committed_offset >= seen.log_start_offset THEN 0
    WHEN committed.committed_offset >= 0 THEN seen.log_start_offset - committed.committed_offset
  END AS records_lost,
  CASE
    WHEN committed.committed_offset <= seen.log_end_offset OR committed.commit_timestamp <= seen.seen_at
      THEN committed.committed_offset NOT BETWEEN seen.log_start_offset AND seen.log_end_offset
  END AS will_reset,
  seen.seen_at
FROM committed_offsets AS committed
LEFT JOIN _topic_ends AS seen ON seen.topic = committed.topic AND seen.partition = committed.partition
