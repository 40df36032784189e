SELECT style.group_id, style, ids, partitions, longest_timeout_ms, transactional_id
FROM eos_style AS style
LEFT JOIN transaction_limits AS limits ON limits.group_id = style.group_id
ORDER BY style.group_id
