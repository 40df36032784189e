SELECT
  count(*) FILTER (WHERE expires_at <= as_of) AS due_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of) AS due_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of + INTERVAL '7' DAY) AS week_groups,
  count(*) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_offsets,
  count(DISTINCT group_id) FILTER (WHERE expires_at <= as_of + INTERVAL '30' DAY) AS month_groups,
  count(*) AS offsets
FROM offset_expiry
