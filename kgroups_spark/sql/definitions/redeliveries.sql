-- Redeliveries of share groups by day: deliveries of a record after its first one, as far as stored delivery counts show them. A lower bound: the share coordinator stores no state of records that are finished at the start offset
--
-- day TIMESTAMP: The day (UTC) of the records that show them; null: a record without a time
-- state_partition, group_id of share_group_state_records
-- topic: Name of the topic; null: not known
-- topic_id, partition of share_group_state_records
-- redeliveries: Deliveries of records after their first one
-- records: Records that were delivered again
-- delivery_count: The highest delivery count among them

WITH batches AS (
  SELECT state_partition, group_id, topic_id, partition, begins, ends, delivery_count,
    min(struct_pack(log_offset := log_offset, log_timestamp := log_timestamp)) AS shown
  FROM _stored_batches
  WHERE delivery_count > 1
  GROUP BY state_partition, group_id, topic_id, partition, begins, ends, delivery_count
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
    CASE WHEN shown.log_timestamp <= (SELECT max(believed_until) FROM last_audit) THEN shown.log_timestamp END AS shown_at,
    delivery_count - greatest(1, coalesce(max(delivery_count) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition, border ORDER BY shown.log_offset, delivery_count
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 1)) AS more
  FROM pieces
  JOIN batches USING (state_partition, group_id, topic_id, partition)
  WHERE begins <= border AND ends >= border
),
-- A record may be delivered again twice on a day.
by_day AS (
  SELECT state_partition, group_id, topic_id, partition, border, records,
    date_trunc('day', shown_at) AS day, sum(more) AS more, max(delivery_count) AS delivery_count
  FROM counts
  WHERE more > 0
  GROUP BY state_partition, group_id, topic_id, partition, border, records, date_trunc('day', shown_at)
)
SELECT state_partition, group_id, topic_id, max(names.topic) AS topic, partition, day,
  CAST(sum(more * records) AS BIGINT) AS redeliveries,
  CAST(sum(records) AS BIGINT) AS records,
  max(delivery_count) AS delivery_count
FROM by_day
LEFT JOIN _topic_names AS names USING (topic_id)
GROUP BY state_partition, group_id, topic_id, partition, day
