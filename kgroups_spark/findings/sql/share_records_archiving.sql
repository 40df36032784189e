-- warning by share_batches: records that a share group gave up are not in its dead-letter queue
-- of all partitions
-- Share group {group_id} gave up {records:counted record} of {partitions:some}, the first at offset {first_offset}, and since
-- {since:time} nothing shows that they are in its dead-letter queue[ {queue_topic}]. They hold the start offset. Look
-- in the log of the leaders of these partitions, and at the queue's topic (errors.deadletterqueue.topic.name), its ACLs
-- and its size limits

WITH queues AS (
  SELECT group_id, max(nullif(value, '')) AS queue_topic FROM cluster_facts
  WHERE audit_id = (SELECT max(audit_id) FROM cluster_facts) AND name = 'errors.deadletterqueue.topic.name'
  GROUP BY group_id
)
SELECT group_id, share_batches.topic, partition, first_offset, queue_topic,
  CAST(sum(last_offset - first_offset + 1) OVER of_group AS BIGINT) AS records,
  min(share_partitions.log_timestamp) OVER of_group AS since,
  list(coalesce(share_batches.topic, topic_id) || '-' || partition) OVER of_group AS partitions
FROM share_batches JOIN share_partitions USING (group_id, topic_id, partition) LEFT JOIN queues USING (group_id)
WHERE delivery_state = 'archiving' AND last_offset >= first_offset
  AND share_partitions.log_timestamp <= $known_until - INTERVAL 1 HOUR
WINDOW of_group AS (PARTITION BY group_id)
QUALIFY row_number() OVER (of_group ORDER BY topic_id, partition, first_offset) = 1
