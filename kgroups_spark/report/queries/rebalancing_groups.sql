-- The groups and days with most rebalances (50 at most)
-- group_id Group; day Day (UTC); group_type- Type; rebalances Rebalances :count; superseded- Cut short by the next
-- :count; longest_s Longest (s) :rate; slowest_member_id- Its slowest member; newest- The newest (UTC) :time

SELECT group_id, group_type,
  CAST(CAST(date_trunc('day', rebalance_timestamp) AS DATE) AS STRING) AS day,
  count(*) AS rebalances,
  count(*) FILTER (WHERE outcome = 'superseded') AS superseded,
  max(duration_ms) AS longest_ms,
  max_by(slowest_member_id, {'ms': duration_ms, 'at': log_offset})
    FILTER (WHERE duration_ms IS NOT NULL) AS slowest_member_id,
  max(rebalance_timestamp) AS newest
FROM rebalances
WHERE rebalance_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND rebalance_timestamp <= (SELECT believed_until FROM last_audit)
GROUP BY offsets_partition, group_id, group_type, date_trunc('day', rebalance_timestamp)
ORDER BY rebalances DESC, newest DESC, group_id, offsets_partition
LIMIT 50
