-- Groups by type and state, as of the audit

-- A row without a state is about all groups of the type. A group in two offsets partitions counts once.
SELECT group_type, state, count(DISTINCT group_id) AS group_count
FROM groups
GROUP BY GROUPING SETS ((group_type, state), (group_type))
ORDER BY group_type, state NULLS LAST
