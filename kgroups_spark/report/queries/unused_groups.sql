-- Groups that nobody has used for 30 days; kgroups cleanup prints Kafka's commands that delete them
-- group_id Group; group_type Type; state State; idle_since Idle since (UTC) :time; offset_count Offsets :count;
-- expires_at- First expires (UTC) :time

SELECT group_id, group_type, state, idle_since, offset_count, expires_at
FROM unused_groups
WHERE idle_since <= (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
ORDER BY idle_since, group_id
