SELECT topic, partition, client_id, client_host, valid_from, valid_to
FROM partition_owners
WHERE group_id = :group_id
ORDER BY topic NULLS LAST, partition, log_offset
