-- Share partitions and the log ends of their topics, from the newest audit of a live cluster; without such an audit only the share partitions are known
--
-- columns of share_partitions
-- log_end_offset: High watermark of the topic's partition; null: unknown, as for a topic id that the topic no longer has
-- lag BIGINT: log_end_offset - start_offset - delivery_complete_count, as brokers compute it from 4.2 on; null: one of them is unknown, or the difference is not a BIGINT
-- records_lost BIGINT: Records before the topic's log start that were not delivered, log_start_offset - start_offset; 0: none; null: one of them is unknown
-- seen_at: When the audit asked for the topic's partition; null: no audit has

SELECT stored.*, seen.log_end_offset,
  -- The start offset may be any, so a difference need not be a BIGINT.
  TRY_CAST(
    CAST(seen.log_end_offset AS DECIMAL(38, 0)) - stored.start_offset - stored.delivery_complete_count AS BIGINT
  ) AS lag,
  CASE
    WHEN stored.start_offset >= seen.log_start_offset THEN 0
    ELSE TRY_CAST(CAST(seen.log_start_offset AS DECIMAL(38, 0)) - stored.start_offset AS BIGINT)
  END AS records_lost,
  seen.seen_at
FROM share_partitions AS stored
LEFT JOIN _topic_ends AS seen
  ON seen.topic = stored.topic AND seen.partition = stored.partition
  AND (seen.topic_id IS NULL OR seen.topic_id = stored.topic_id)
