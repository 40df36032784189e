-- Moves, the newest first
-- event_timestamp When (UTC) :time; group_id Group; topic Topic; event What; cause How; partitions- Partitions :count;
-- read_again Read again :count; skipped Never read :count

WITH placed AS (
  SELECT *,
    cause = 'topic_recreated' AS is_other_topic,
    lag(cause) OVER of_offset AS cause_before, lag(offset_after) OVER of_offset AS moved_to,
    sum(CASE WHEN cause = 'topic_recreated' THEN 1 ELSE 0 END) OVER of_offset AS life
  FROM all_events
  WHERE event IN ('offset_rewound', 'offset_restarted', 'offset_skipped', 'offset_removed')
  WINDOW of_offset AS (PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset, event_index)
),
moves AS (
  SELECT *,
    event <> 'offset_restarted' OR cause_before IN ('expired', 'probably_expired', 'group_deleted') AS is_same_log,
    cause IN ('no_members', 'with_members') AS is_subscribed
  FROM placed
  -- A negative offset is none for every client.
  WHERE event <> 'offset_removed' AND least(offset_before, offset_after) >= 0
),
-- Skipped records were read before an earlier move back, or are read after a later one.
bounds AS (
  SELECT *,
    max(CASE WHEN NOT is_other_topic AND offset_before IS DISTINCT FROM moved_to THEN offset_before END) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition, life ORDER BY log_offset, event_index
    ) AS reached,
    min(offset_after) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition, life ORDER BY log_offset DESC, event_index DESC
    ) AS comes_back_to
  FROM moves
),
distances AS (
  SELECT *,
    -- After a removal with the topic the numbers are of another log.
    CASE
      WHEN offset_after < offset_before AND NOT is_other_topic AND (is_same_log OR cause_before = 'offset_deleted')
        THEN CAST(offset_before AS DECIMAL(38, 0)) - offset_after
    END AS distance_back,
    -- Without a subscription, or with a transaction, a reader may have gone on while its offset was removed.
    CASE
      WHEN offset_after > offset_before AND NOT is_other_topic AND is_same_log AND is_subscribed
        THEN CAST(comes_back_to AS DECIMAL(38, 0)) - greatest(offset_before, coalesce(reached, offset_before))
    END AS distance_ahead
  FROM bounds
),
-- A client may commit any offset, so a sum of differences need not be a BIGINT.
sums AS (
  SELECT min(event_timestamp) AS event_timestamp, group_id, topic, event, cause,
    count(DISTINCT partition) AS partitions,
    sum(distance_back) AS read_again,
    sum(CASE WHEN distance_ahead > 0 THEN distance_ahead END) AS skipped
  FROM distances
  GROUP BY offsets_partition, group_id, topic, event, cause, date_trunc('hour', event_timestamp)
)
SELECT event_timestamp, group_id, topic, event, cause, partitions,
  CAST(CASE WHEN read_again IS NOT NULL THEN least(read_again, 9223372036854775807) END AS BIGINT) AS read_again,
  CAST(CASE WHEN skipped IS NOT NULL THEN least(skipped, 9223372036854775807) END AS BIGINT) AS skipped
FROM sums
ORDER BY event_timestamp DESC, group_id, topic
