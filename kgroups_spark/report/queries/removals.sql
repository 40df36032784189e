-- Removals, the newest first
-- event_timestamp When (UTC) :time; group_id Group; cause Cause; offsets Offsets :count; topics- Topics :count;
-- is_group_removed- Group removed, too

SELECT min(event_timestamp) AS event_timestamp, group_id, cause,
  count(*) FILTER (WHERE event = 'offset_removed') AS offsets,
  count(DISTINCT topic) AS topics,
  count(*) FILTER (WHERE event = 'group_removed') > 0 AS is_group_removed
FROM all_events
WHERE event IN ('offset_removed', 'group_removed')
GROUP BY offsets_partition, group_id, cause, date_trunc('hour', event_timestamp)
ORDER BY event_timestamp DESC, group_id, offsets_partition, cause NULLS LAST
