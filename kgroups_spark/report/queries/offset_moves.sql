SELECT
  min(event_timestamp) AS event_timestamp,
  group_id,
  topic,
  event,
  cause,
  count(DISTINCT partition) AS partitions,
  CAST(sum(CASE WHEN offset_after < offset_before AND cause <> 'topic_recreated' THEN offset_before - offset_after END)
    AS BIGINT) AS read_again,
  CAST(sum(CASE WHEN offset_after > offset_before AND cause <> 'topic_recreated' THEN offset_after - offset_before END)
    AS BIGINT) AS skipped
FROM group_events
WHERE event IN ('offset_rewound', 'offset_restarted', 'offset_skipped')
GROUP BY offsets_partition, group_id, topic, event, cause, date_trunc('hour', event_timestamp)
ORDER BY event_timestamp DESC, group_id, topic
