SELECT valid_from, valid_to, group_type, state, member_count, log_offset
FROM group_history
WHERE group_id = :group_id AND NOT is_removed
ORDER BY offsets_partition, log_offset
