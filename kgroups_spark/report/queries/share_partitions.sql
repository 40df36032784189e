-- Share partitions, the longest lag first
-- group_id Group; topic Topic; partition Partition :count; init_state- State; start_offset Start offset :count; lag
-- Lag :count; window_records- Window, at least :count; archived- Archived :count; log_timestamp- Last stored (UTC)
-- :time

SELECT stored.group_id,
  coalesce(stored.topic, stored.topic_id) AS topic,
  stored.partition, stored.init_state, stored.start_offset, stored.lag, stored.delivery_complete_count,
  -- A batch may have any two offsets: none lie between them, or more than a BIGINT counts.
  CAST(least(
    sum(CASE
      WHEN batches.delivery_state IN ('archiving', 'archived') AND batches.last_offset >= batches.first_offset
        THEN CAST(batches.last_offset AS DECIMAL(38, 0)) - batches.first_offset + 1
      ELSE 0
    END),
    9223372036854775807
  ) AS BIGINT) AS archived,
  stored.log_timestamp, max(windows.window_records) AS window_records,
  max(CASE WHEN windows.is_full THEN 1 END) AS full_windows
FROM share_lag AS stored
LEFT JOIN share_windows AS windows USING (group_id, topic_id, partition)
LEFT JOIN share_batches AS batches USING (group_id, topic_id, partition)
GROUP BY
  stored.group_id, stored.topic, stored.topic_id, stored.partition, stored.init_state, stored.start_offset, stored.lag,
  stored.delivery_complete_count, stored.log_timestamp
ORDER BY lag DESC NULLS LAST, stored.group_id, topic, stored.partition
