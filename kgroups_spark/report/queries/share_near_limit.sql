-- Records near their delivery limit
-- group_id Group; topic Topic; partition Partition :count; first_offset From offset :count; last_offset To offset
-- :count; delivery_count Delivered :count; attempts_left Attempts left :count

SELECT group_id, coalesce(topic, topic_id) AS topic, partition, first_offset, last_offset,
  -- A batch may have any two offsets: none lie between them, or more than a BIGINT counts.
  CAST(least(CAST(last_offset AS DECIMAL(38, 0)) - first_offset + 1, 9223372036854775807) AS BIGINT) AS records,
  delivery_count, attempts_left
FROM share_batches
WHERE attempts_left <= 1 AND last_offset >= first_offset
ORDER BY attempts_left, group_id, topic, partition, first_offset
