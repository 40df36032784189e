WITH moves AS (
  SELECT
    *,
    CASE WHEN cause <> 'topic_recreated' THEN CAST(offset_after AS DECIMAL(38, 0)) - offset_before END AS distance
  FROM group_events
  WHERE event IN ('offset_rewound', 'offset_restarted', 'offset_skipped')
),
-- A client may commit any offset, so a sum of differences need not be a BIGINT.
sums AS (
  SELECT
    min(event_timestamp) AS event_timestamp,
    group_id,
    topic,
    event,
    cause,
    count(DISTINCT partition) AS partitions,
    sum(CASE WHEN distance < 0 THEN -distance END) AS read_again,
    sum(CASE WHEN distance > 0 THEN distance END) AS skipped
  FROM moves
  GROUP BY offsets_partition, group_id, topic, event, cause, date_trunc('hour', event_timestamp)
)
SELECT
  event_timestamp,
  group_id,
  topic,
  event,
  cause,
  partitions,
  CAST(CASE WHEN read_again IS NOT NULL THEN least(read_again, 9223372036854775807) END AS BIGINT) AS read_again,
  CAST(CASE WHEN skipped IS NOT NULL THEN least(skipped, 9223372036854775807) END AS BIGINT) AS skipped
FROM sums
ORDER BY event_timestamp DESC, group_id, topic
