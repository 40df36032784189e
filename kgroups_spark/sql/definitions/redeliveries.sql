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
  SELECT
    state_partition,
    group_id,
    topic_id,
    partition,
    log_offset,
    log_timestamp,
    unnest(from_json(
      value, '{"stateBatches": [{"firstOffset": "BIGINT", "lastOffset": "BIGINT", "deliveryCount": "INTEGER"}]}'
    )."stateBatches") AS batch
  FROM share_group_state_records
  WHERE value IS NOT NULL
),
-- Each snapshot repeats them; a time counts as for all views.
batches AS (
  SELECT
    state_partition,
    group_id,
    topic_id,
    partition,
    batch."firstOffset" AS first_offset,
    batch."lastOffset" AS last_offset,
    batch."deliveryCount" AS delivery_count,
    min(log_offset) AS log_offset,
    min_by(
      {'at': CASE WHEN log_timestamp <= (SELECT max(believed_until) FROM last_audit) THEN log_timestamp END}, log_offset
    ).at AS log_timestamp
  FROM written
  WHERE batch."deliveryCount" > 1 AND batch."lastOffset" BETWEEN batch."firstOffset" AND 9223372036854775806
  GROUP BY
    state_partition, group_id, topic_id, partition, batch."firstOffset", batch."lastOffset", batch."deliveryCount"
),
borders AS (
  SELECT state_partition, group_id, topic_id, partition, first_offset AS border FROM batches
  UNION
  SELECT state_partition, group_id, topic_id, partition, last_offset + 1 FROM batches
),
pieces AS (
  SELECT
    *,
    lead(border) OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY border) - border AS records
  FROM borders
),
counts AS (
  SELECT
    pieces.*,
    batches.log_timestamp,
    batches.delivery_count,
    batches.delivery_count - greatest(1, coalesce(max(batches.delivery_count) OVER before, 1)) AS more
  FROM pieces
  JOIN batches
    ON batches.state_partition = pieces.state_partition
    AND batches.group_id = pieces.group_id
    AND batches.topic_id = pieces.topic_id
    AND batches.partition = pieces.partition
    AND batches.first_offset <= pieces.border
    AND batches.last_offset >= pieces.border
  WINDOW before AS (
    PARTITION BY pieces.state_partition, pieces.group_id, pieces.topic_id, pieces.partition, pieces.border
    ORDER BY batches.log_offset, batches.delivery_count
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
),
names AS (
  SELECT topic_id, max(topic) AS topic
  FROM (SELECT topic_id, topic FROM share_partitions UNION ALL SELECT topic_id, topic FROM topics)
  GROUP BY topic_id
),
-- A record may be delivered again twice on a day.
by_day AS (
  SELECT
    state_partition,
    group_id,
    topic_id,
    partition,
    date_trunc('day', log_timestamp) AS day,
    border,
    records,
    sum(more) AS more,
    max(delivery_count) AS delivery_count
  FROM counts
  WHERE more > 0
  GROUP BY state_partition, group_id, topic_id, partition, date_trunc('day', log_timestamp), border, records
)
SELECT
  by_day.state_partition,
  by_day.group_id,
  by_day.topic_id,
  max(names.topic) AS topic,
  by_day.partition,
  by_day.day,
  CAST(sum(by_day.more * by_day.records) AS BIGINT) AS redeliveries,
  CAST(sum(by_day.records) AS BIGINT) AS records,
  max(by_day.delivery_count) AS delivery_count
FROM by_day
LEFT JOIN names ON names.topic_id = by_day.topic_id
GROUP BY by_day.state_partition, by_day.group_id, by_day.topic_id, by_day.partition, by_day.day
