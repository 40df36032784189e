SELECT
  date_trunc('day', greatest(expires_at, as_of)) AS day,
  expires_at <= as_of AS is_due,
  count(*) AS offsets,
  count(DISTINCT group_id) AS group_count
FROM offset_expiry
WHERE expires_at <= as_of + INTERVAL '30' DAY
GROUP BY date_trunc('day', greatest(expires_at, as_of)), expires_at <= as_of
ORDER BY day, is_due
