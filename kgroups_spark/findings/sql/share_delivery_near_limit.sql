-- warning by share_batches: a share group's records that one more failed delivery archives
-- of all partitions
-- {records:counted record} of share group {group_id} ({partitions:some}) can be delivered once more at most: delivered
-- {delivery_count} times, and at the group's share.delivery.count.limit (the brokers' group.share.delivery.count.limit, if
-- it has none) the record is archived, and no consumer receives it again. Find out why its consumers cannot process them:
-- offsets {first_offset} to {last_offset} are the first. A higher limit buys time

-- A batch may have any two offsets, between which there are no records. attempts_left is null if the limit is unknown.
SELECT group_id, topic, partition, delivery_count, first_offset, last_offset,
  CAST(sum(last_offset - first_offset + 1) OVER of_group AS BIGINT) AS records,
  list(coalesce(topic, topic_id) || '-' || partition) OVER of_group AS partitions
FROM share_batches
WHERE attempts_left <= 1 AND last_offset >= first_offset
WINDOW of_group AS (PARTITION BY group_id)
QUALIFY row_number() OVER (of_group ORDER BY topic_id, partition) = 1
