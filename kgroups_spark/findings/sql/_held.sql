-- Partitions, or active tasks of a streams group, that a member has (pending revocation, too) or is to have, in groups of
-- _unlike. `id`: the id of the partition's topic, or its name if the id is unknown; or a subtopology.
WITH lists AS NOT MATERIALIZED (
  SELECT 'assigned' AS how, offsets_partition, group_id, member_id, log_offset, uses_classic_protocol,
    list_concat(assigned_partitions, pending_revocation_partitions) AS partitions,
    list_concat(assigned_tasks, pending_revocation_tasks) AS tasks
  FROM group_members SEMI JOIN _unlike USING (offsets_partition, group_id)
  UNION ALL
  SELECT 'targeted', offsets_partition, group_id, member_id, log_offset, uses_classic_protocol, target_partitions, target_tasks
  FROM group_members SEMI JOIN _unlike USING (offsets_partition, group_id)
)
SELECT how, offsets_partition, group_id, member_id, log_offset, uses_classic_protocol IS NULL AS may_share, each.topic,
  coalesce(each.topic_id, each.topic) AS id, each.partition
FROM (SELECT *, unnest(partitions) AS each FROM lists WHERE len(partitions) > 0)
UNION ALL
SELECT how, offsets_partition, group_id, member_id, log_offset, false, NULL, each.subtopology_id, each.partition
FROM (SELECT *, unnest(tasks) AS each FROM lists WHERE len(tasks) > 0)
WHERE each.role = 'active'
