WITH by_audit AS (
  SELECT
    date_trunc('day', max(seen_at)) AS day,
    max(seen_at) AS seen_at,
    TRY_CAST(sum(CAST(greatest(lag, 0) AS DECIMAL(38, 0))) AS BIGINT) AS lag,
    TRY_CAST(sum(CAST(coalesce(records_lost, 0) AS DECIMAL(38, 0))) AS BIGINT) AS lost
  FROM lag_history
  WHERE lag IS NOT NULL AND seen_at > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  GROUP BY audit_id
),
last_of_day AS (
  SELECT day, lag, lost, row_number() OVER (PARTITION BY day ORDER BY seen_at DESC) AS number FROM by_audit
)
SELECT day, 'still in the topic' AS records, lag - lost AS value FROM last_of_day WHERE number = 1 AND lag > lost
UNION ALL
SELECT day, 'deleted unread', lost FROM last_of_day WHERE number = 1 AND lost > 0
ORDER BY day, records
