-- Records that were given up, the newest first
-- given_up_at When (UTC) :time; group_id Group; topic Topic; partition Partition :count; first_offset From offset
-- :count; last_offset To offset :count; records Records :count; reason Why; delivery_state- State; queue_topic-
-- Dead-letter queue

SELECT given_up_at, group_id,
  coalesce(topic, topic_id) AS topic,
  partition, min(first_offset) AS first_offset, max(last_offset) AS last_offset,
  CAST(sum(records) AS BIGINT) AS records,
  reason, delivery_state, queue_topic
FROM dead_letters
GROUP BY given_up_at, group_id, coalesce(topic, topic_id), partition, reason, delivery_state, queue_topic
ORDER BY given_up_at DESC NULLS LAST, group_id, topic, partition, first_offset
