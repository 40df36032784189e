-- Partitions, or active tasks of a streams group, that a member has (pending revocation, too) or is to have, in groups of
-- _unlike. `id`: the id of the partition's topic, or its name if the id is unknown; or a subtopology.
WITH lists AS NOT MATERIALIZED (
  SELECT offsets_partition, group_id, member_id, log_offset, uses_classic_protocol, unnest([
      {'how': 'assigned', 'partitions': list_concat(assigned_partitions, pending_revocation_partitions),
        'tasks': list_concat(assigned_tasks, pending_revocation_tasks)},
      {'how': 'targeted', 'partitions': target_partitions, 'tasks': target_tasks}
    ]) AS list
  FROM group_members SEMI JOIN _unlike USING (offsets_partition, group_id)
)
SELECT list.how, offsets_partition, group_id, member_id, log_offset, uses_classic_protocol IS NULL AS may_share, each.topic,
  coalesce(each.topic_id, each.topic) AS id, each.partition
FROM (SELECT *, unnest(list.partitions) AS each FROM lists)
UNION ALL
SELECT list.how, offsets_partition, group_id, member_id, log_offset, false, NULL, each.subtopology_id, each.partition
FROM (SELECT *, unnest(list.tasks) AS each FROM lists)
WHERE each.role = 'active'
