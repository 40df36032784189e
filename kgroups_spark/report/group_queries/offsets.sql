SELECT
  effective_timestamp, topic, partition, committed_offset, previous_committed_offset, owner_client_id,
  effective_log_offset
FROM offset_history
WHERE group_id = :group_id AND took_effect AND effective_timestamp BETWEEN :since AND :until
ORDER BY offsets_partition, effective_log_offset, topic, partition
