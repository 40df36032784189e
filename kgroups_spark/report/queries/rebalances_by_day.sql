SELECT date_trunc('day', rebalance_timestamp) AS day, cause, count(*) AS rebalances
FROM rebalances
WHERE rebalance_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND rebalance_timestamp <= (SELECT believed_until FROM last_audit)
GROUP BY date_trunc('day', rebalance_timestamp), cause
ORDER BY day, cause
