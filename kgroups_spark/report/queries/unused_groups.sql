SELECT group_id, group_type, state, idle_since, offset_count, expires_at
FROM unused_groups
WHERE idle_since <= (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
ORDER BY idle_since, group_id
