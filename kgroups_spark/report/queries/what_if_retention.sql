-- The same in figures: offsets that expire, and of how many groups at once
-- retention Retention; due_offsets At once :count; due_groups- Groups :count; week_offsets Within 7 days :count;
-- month_offsets Within 30 days :count

WITH judged AS (
  SELECT * FROM expiring(NULL, INTERVAL '1' DAY)
  UNION ALL
  SELECT * FROM expiring(NULL, INTERVAL '3' DAY)
  UNION ALL
  SELECT * FROM expiring(NULL, INTERVAL '7' DAY)
  UNION ALL
  SELECT * FROM expiring(NULL, INTERVAL '14' DAY)
  UNION ALL
  SELECT * FROM expiring(NULL, INTERVAL '30' DAY)
)
SELECT asked.retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
-- A retention by which nothing expires has a row, too.
FROM (VALUES (86400000), (259200000), (604800000), (1209600000), (2592000000)) AS asked (retention_ms)
LEFT JOIN judged ON judged.retention_ms = asked.retention_ms
GROUP BY asked.retention_ms
ORDER BY asked.retention_ms
