-- Groups with unread records, the most first
-- group_id Group; partitions Partitions :count; lag Lag :count; records_lost Deleted unread :count; seen_at- Seen
-- (UTC) :time

SELECT group_id, count(*) AS partitions,
  -- Share partitions may have any offset, so a sum need not be a BIGINT.
  TRY_CAST(sum(CAST(greatest(lag, 0) AS DECIMAL(38, 0))) AS BIGINT) AS lag,
  nullif(TRY_CAST(sum(CAST(records_lost AS DECIMAL(38, 0))) AS BIGINT), 0) AS records_lost,
  max(seen_at) AS seen_at
FROM (
  SELECT group_id, lag, records_lost, seen_at FROM lag
  UNION ALL
  SELECT group_id, lag, records_lost, seen_at FROM share_lag
)
WHERE lag IS NOT NULL
GROUP BY group_id
HAVING max(lag) > 0
ORDER BY lag DESC NULLS FIRST, group_id
