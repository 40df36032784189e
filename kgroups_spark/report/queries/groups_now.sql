SELECT group_type, state, count(*) AS group_count
FROM groups
GROUP BY group_type, state
ORDER BY group_type, state
