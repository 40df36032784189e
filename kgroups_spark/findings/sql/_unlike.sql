-- Groups to be looked at partition by partition: members have, or are to have, others than those with committed offsets, as
-- numbers and sums of hashes show (members of a streams group have none). `is_unread`: a member's assignment is unknown.
WITH held AS (
  SELECT how, offsets_partition, group_id, sum(len(partitions)) AS number,
    sum(list_sum(list_transform(partitions, lambda each: hash(each.topic, each.partition)))) AS hashes,
    bool_or(is_unread) AS is_unread
  FROM (
    SELECT 'assigned' AS how, *, assigned_partitions AS partitions, assigned_partitions IS NULL AS is_unread FROM group_members
    UNION ALL
    SELECT 'assigned', *, pending_revocation_partitions, NULL FROM group_members WHERE pending_revocation_partitions IS NOT NULL
    UNION ALL
    SELECT 'targeted', *, target_partitions, NULL FROM group_members WHERE target_partitions IS NOT NULL
  )
  GROUP BY ALL
)
SELECT offsets_partition, group_id, bool_or(is_unread) AS is_unread
FROM held FULL JOIN (
  SELECT offsets_partition, group_id, count(*) AS number, sum(hash(topic, partition)) AS hashes FROM committed_offsets GROUP BY ALL
) AS committed USING (offsets_partition, group_id)
GROUP BY ALL
HAVING bool_or((held.number, held.hashes) IS DISTINCT FROM (committed.number, committed.hashes))
