SELECT
  stored.group_id,
  coalesce(stored.topic, stored.topic_id) AS topic,
  stored.partition,
  stored.init_state,
  stored.start_offset,
  -- The start offset and a batch's offsets may be any, so a difference need not be a BIGINT.
  TRY_CAST(CAST(seen.log_end_offset AS DECIMAL(38, 0)) - stored.start_offset - stored.delivery_complete_count AS BIGINT)
    AS lag,
  stored.delivery_complete_count,
  CAST(least(
    sum(CASE
      WHEN batches.delivery_state = 'archived'
        THEN CAST(batches.last_offset AS DECIMAL(38, 0)) - batches.first_offset + 1
      ELSE 0
    END),
    9223372036854775807
  ) AS BIGINT) AS archived,
  stored.log_timestamp
FROM share_partitions AS stored
LEFT JOIN (
  SELECT topic, topic_id, partition, log_end_offset
  FROM topic_offsets
  WHERE audit_id = (SELECT max(audit_id) FROM topic_offsets)
) AS seen
  ON seen.topic = stored.topic
  AND seen.partition = stored.partition
  AND (seen.topic_id IS NULL OR seen.topic_id = stored.topic_id)
LEFT JOIN share_batches AS batches
  ON batches.group_id = stored.group_id
  AND batches.topic_id = stored.topic_id
  AND batches.partition = stored.partition
GROUP BY
  stored.group_id, stored.topic, stored.topic_id, stored.partition, stored.init_state, stored.start_offset,
  seen.log_end_offset, stored.delivery_complete_count, stored.log_timestamp
ORDER BY lag DESC NULLS LAST, stored.group_id, topic, stored.partition
