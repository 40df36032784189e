-- Groups with offsets in transactions: a transactional id for each partition or for each thread (KIP-447)
-- group_id Group; style Style; ids Ids :count; partitions- Partitions :count; timeout Longest timeout;
-- transactional_id- Its transactional id

SELECT style.group_id, style, ids, partitions, longest_timeout_ms, transactional_id
FROM eos_style AS style
LEFT JOIN transaction_limits AS limits ON limits.group_id = style.group_id
ORDER BY style.group_id
