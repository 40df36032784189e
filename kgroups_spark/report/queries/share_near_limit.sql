SELECT batches.group_id,
  coalesce(batches.topic, batches.topic_id) AS topic,
  batches.partition, batches.first_offset, batches.last_offset,
  -- A batch may have any two offsets: none lie between them, or more than a BIGINT counts.
  CAST(least(CAST(batches.last_offset AS DECIMAL(38, 0)) - batches.first_offset + 1, 9223372036854775807) AS BIGINT)
    AS records,
  batches.delivery_count, batches.attempts_left
FROM share_batches AS batches
WHERE batches.attempts_left <= 1 AND batches.last_offset >= batches.first_offset
ORDER BY batches.attempts_left, batches.group_id, topic, batches.partition, batches.first_offset
