-- Groups to be looked at partition by partition: members have, or are to have, others than those with committed offsets, or
-- tasks, as numbers and sums of hashes show. `is_unread`: a member's assignment is unknown. `changed_at`: its last record.
SELECT offsets_partition, group_id, is_unread, changed_at
FROM (
  SELECT offsets_partition, group_id, bool_or(assigned_partitions IS NULL) AS is_unread, max(log_offset) AS changed_at,
    bool_or(coalesce(assigned_tasks, target_tasks, pending_revocation_tasks) IS NOT NULL) AS has_tasks,
    sum(len(held)) AS number, sum(list_sum(list_transform(held, lambda each: hash(each.topic, each.partition)))) AS hashes,
    count(target_partitions) AS targets, sum(len(target_partitions)) AS target_number,
    sum(list_sum(list_transform(target_partitions, lambda each: hash(each.topic, each.partition)))) AS target_hashes
  FROM (SELECT *, list_concat(assigned_partitions, pending_revocation_partitions) AS held FROM group_members)
  GROUP BY ALL
) AS members
LEFT JOIN (
  SELECT offsets_partition, group_id, count(*) AS number, sum(hash(topic, partition)) AS hashes FROM committed_offsets GROUP BY ALL
) AS committed USING (offsets_partition, group_id)
WHERE has_tasks OR (members.number, members.hashes) IS DISTINCT FROM (committed.number, committed.hashes)
  OR targets > 0 AND (target_number, target_hashes) IS DISTINCT FROM (committed.number, committed.hashes)
