SELECT
  86400000 AS retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
FROM expiring(NULL, INTERVAL '1' DAY)
UNION ALL
SELECT
  259200000 AS retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
FROM expiring(NULL, INTERVAL '3' DAY)
UNION ALL
SELECT
  604800000 AS retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
FROM expiring(NULL, INTERVAL '7' DAY)
UNION ALL
SELECT
  1209600000 AS retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
FROM expiring(NULL, INTERVAL '14' DAY)
UNION ALL
SELECT
  2592000000 AS retention_ms,
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets
FROM expiring(NULL, INTERVAL '30' DAY)
ORDER BY retention_ms
