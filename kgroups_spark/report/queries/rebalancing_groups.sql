SELECT
  group_id,
  group_type,
  count(*) AS rebalances,
  count(*) FILTER (WHERE outcome = 'superseded') AS superseded,
  max(duration_ms) AS longest_ms,
  max(coalesce(started_timestamp, joined_timestamp, finished_timestamp)) AS newest
FROM rebalances
WHERE coalesce(started_timestamp, joined_timestamp, finished_timestamp) > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND coalesce(started_timestamp, joined_timestamp, finished_timestamp) <= (SELECT believed_until FROM last_audit)
GROUP BY offsets_partition, group_id, group_type
ORDER BY rebalances DESC, group_id, offsets_partition
LIMIT 50
