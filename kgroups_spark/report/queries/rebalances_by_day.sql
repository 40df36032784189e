SELECT
  date_trunc('day', coalesce(started_timestamp, joined_timestamp, finished_timestamp)) AS day,
  cause,
  count(*) AS rebalances
FROM rebalances
WHERE coalesce(started_timestamp, joined_timestamp, finished_timestamp) > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND coalesce(started_timestamp, joined_timestamp, finished_timestamp) <= (SELECT believed_until FROM last_audit)
GROUP BY date_trunc('day', coalesce(started_timestamp, joined_timestamp, finished_timestamp)), cause
ORDER BY day, cause
