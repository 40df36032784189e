-- Groups to be looked at partition by partition: members have, or are to have, others than those with committed offsets, as
-- numbers and sums of hashes show (members of a streams group have none). `is_unread`: a member's assignment is unknown.
SELECT offsets_partition, group_id, is_unread
FROM (
  SELECT offsets_partition, group_id, bool_or(assigned_partitions IS NULL) AS is_unread,
    sum(coalesce(len(assigned_partitions), 0) + coalesce(len(pending_revocation_partitions), 0)) AS number,
    sum(coalesce(list_sum(list_transform(assigned_partitions, lambda each: hash(each.topic, each.partition))), 0)
      + coalesce(list_sum(list_transform(pending_revocation_partitions, lambda each: hash(each.topic, each.partition))), 0)
    ) AS hashes,
    count(target_partitions) AS targets, sum(len(target_partitions)) AS target_number,
    sum(list_sum(list_transform(target_partitions, lambda each: hash(each.topic, each.partition)))) AS target_hashes
  FROM group_members
  GROUP BY ALL
) AS members
LEFT JOIN (
  SELECT offsets_partition, group_id, count(*) AS number, sum(hash(topic, partition)) AS hashes FROM committed_offsets GROUP BY ALL
) AS committed USING (offsets_partition, group_id)
WHERE (members.number, members.hashes) IS DISTINCT FROM (committed.number, committed.hashes)
  OR targets > 0 AND (target_number, target_hashes) IS DISTINCT FROM (committed.number, committed.hashes)
