-- Redeliveries of share groups by day: deliveries of a record after its first one, as far as stored delivery counts show them. A lower bound: the share coordinator stores no state of records that are finished at the start offset
--
-- day TIMESTAMP: The day (UTC) of the records that show them; null: a record without a time
-- state_partition, group_id of share_group_state_records
-- topic: Name of the topic; null: not known
-- topic_id, partition of share_group_state_records
-- redeliveries: Deliveries of records after their first one
-- records: Records that were delivered again
-- delivery_count: The highest delivery count among them

WITH written AS (
  SELECT state_partition, group_id, topic_id, partition, log_offset,
    CASE WHEN log_timestamp <= (SELECT max(believed_until) FROM last_audit) THEN log_timestamp END AS log_timestamp,
    unnest(from_json(
      value, '{"stateBatches": [{"firstOffset": "BIGINT", "lastOffset": "BIGINT", "deliveryCount": "INTEGER"}]}'
    )."stateBatches") AS batch
  FROM share_group_state_records
  WHERE value IS NOT NULL
),
-- Each snapshot repeats them.
batches AS (
  SELECT state_partition, group_id, topic_id, partition,
    batch."firstOffset" AS begins, batch."lastOffset" AS ends, batch."deliveryCount" AS delivery_count,
    min(struct_pack(log_offset := log_offset, log_timestamp := log_timestamp)) AS shown
  FROM written
  WHERE batch."deliveryCount" > 1 AND batch."lastOffset" BETWEEN batch."firstOffset" AND 9223372036854775806
  GROUP BY state_partition, group_id, topic_id, partition, batch."firstOffset", batch."lastOffset", batch."deliveryCount"
),
borders AS (
  SELECT state_partition, group_id, topic_id, partition, begins AS border FROM batches
  UNION
  SELECT state_partition, group_id, topic_id, partition, ends + 1 FROM batches
),
pieces AS (
  SELECT *,
    lead(border) OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY border) - border AS records
  FROM borders
),
counts AS (
  SELECT *,
    delivery_count - greatest(1, coalesce(max(delivery_count) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition, border ORDER BY shown.log_offset, delivery_count
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 1)) AS more
  FROM pieces
  JOIN batches USING (state_partition, group_id, topic_id, partition)
  WHERE begins <= border AND ends >= border
),
names AS (
  SELECT topic_id, max(topic) AS topic
  FROM (SELECT topic_id, topic FROM share_partitions UNION ALL SELECT topic_id, topic FROM topics)
  GROUP BY topic_id
),
-- A record may be delivered again twice on a day.
by_day AS (
  SELECT state_partition, group_id, topic_id, partition, border, records,
    date_trunc('day', shown.log_timestamp) AS day, sum(more) AS more, max(delivery_count) AS delivery_count
  FROM counts
  WHERE more > 0
  GROUP BY state_partition, group_id, topic_id, partition, border, records, date_trunc('day', shown.log_timestamp)
)
SELECT state_partition, group_id, by_day.topic_id, max(names.topic) AS topic, partition, day,
  CAST(sum(more * records) AS BIGINT) AS redeliveries,
  CAST(sum(records) AS BIGINT) AS records,
  max(delivery_count) AS delivery_count
FROM by_day
LEFT JOIN names ON names.topic_id = by_day.topic_id
GROUP BY state_partition, group_id, by_day.topic_id, partition, day
