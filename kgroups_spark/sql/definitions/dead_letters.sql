-- Records that a share group gave up, ever: each offset once, in ranges that were given up together. History has what the share coordinator stored, so a record below the start offset when its state was first stored is missing
--
-- state_partition, group_id of share_group_state_records
-- topic: Name of the topic; null: not known
-- topic_id, partition of share_group_state_records
-- first_offset: First offset of the range
-- last_offset: Last offset of the range
-- records: Offsets in it
-- delivery_count: Deliveries of each
-- reason: attempts_used_up (as often as the group's share.delivery.count.limit allows, as last known); rejected_or_gap: rejected by a consumer, or an offset without a record for it (compacted, a marker, aborted); null: the limit is unknown
-- delivery_state: archived, or archiving: it was never stored that the record is in the dead-letter queue (4.4)
-- queue_topic: Topic of the group's dead-letter queue (errors.deadletterqueue.topic.name); null: none, or unknown
-- given_up_at: Log time of the record that first shows it; null: none, or its time does not count (last_audit.believed_until)
-- log_offset: That record of __share_group_state

WITH batches AS (
  SELECT state_partition, group_id, topic_id, partition, begins, ends,
    max(state) AS state, max(delivery_count) AS delivery_count,
    min(struct_pack(log_offset := log_offset, log_timestamp := log_timestamp)) AS shown
  FROM _stored_batches
  WHERE state IN (3, 4)
  GROUP BY state_partition, group_id, topic_id, partition, begins, ends
),
borders AS (
  SELECT state_partition, group_id, topic_id, partition, begins AS first_offset FROM batches
  UNION
  SELECT state_partition, group_id, topic_id, partition, ends + 1 FROM batches
),
pieces AS (
  SELECT *, lead(first_offset) OVER its - 1 AS last_offset, row_number() OVER its AS number
  FROM borders
  WINDOW its AS (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY first_offset)
),
covered AS (
  SELECT state_partition, group_id, topic_id, partition, number, first_offset, last_offset,
    max(state) AS state, max(delivery_count) AS delivery_count, min(shown) AS shown
  FROM pieces
  JOIN batches USING (state_partition, group_id, topic_id, partition)
  WHERE begins <= first_offset AND ends >= first_offset
  GROUP BY state_partition, group_id, topic_id, partition, number, first_offset, last_offset
),
-- Adjacent ones that were given up together are one: their numbers follow each other.
marked AS (
  SELECT *,
    number - row_number() OVER (
      PARTITION BY state_partition, group_id, topic_id, partition, shown, delivery_count, state ORDER BY number
    ) AS island
  FROM covered
),
ranges AS (
  SELECT state_partition, group_id, topic_id, partition, shown, delivery_count, state,
    min(first_offset) AS first_offset, max(last_offset) AS last_offset
  FROM marked
  GROUP BY state_partition, group_id, topic_id, partition, shown, delivery_count, state, island
),
settings AS (
  SELECT group_id,
    max(CASE WHEN name = 'share.delivery.count.limit' THEN TRY_CAST(value AS BIGINT) END) AS delivery_count_limit,
    max(CASE WHEN name = 'errors.deadletterqueue.topic.name' AND value <> '' THEN value END) AS queue_topic
  FROM group_settings
  GROUP BY group_id
)
SELECT ranges.*, names.topic, settings.queue_topic,
  last_offset - first_offset + 1 AS records,
  CASE
    WHEN delivery_count >= delivery_count_limit THEN 'attempts_used_up'
    WHEN delivery_count < delivery_count_limit THEN 'rejected_or_gap'
  END AS reason,
  CASE state WHEN 3 THEN 'archiving' ELSE 'archived' END AS delivery_state,
  shown.log_offset AS log_offset,
  CASE WHEN shown.log_timestamp <= (SELECT max(believed_until) FROM last_audit) THEN shown.log_timestamp END AS given_up_at
FROM ranges
LEFT JOIN _topic_names AS names USING (topic_id)
LEFT JOIN settings USING (group_id)
