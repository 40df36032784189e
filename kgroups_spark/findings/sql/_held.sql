-- Partitions, or active tasks of a streams group, that a member has (pending revocation, too) or is to have, in groups of
-- _unlike. `id`: the id of the partition's topic, or its name if the id is unknown; or a subtopology. No member has both.
SELECT list.how, offsets_partition, group_id, member_id, log_offset, uses_classic_protocol IS NULL AND task IS NULL AS may_share,
  each.topic, coalesce(each.topic_id, each.topic, task.subtopology_id) AS id, coalesce(each.partition, task.partition) AS partition
FROM (
  SELECT *, unnest(list.partitions) AS each, unnest(list.tasks) AS task
  FROM (
    SELECT offsets_partition, group_id, member_id, log_offset, uses_classic_protocol, unnest([
        {'how': 'assigned', 'partitions': list_concat(assigned_partitions, pending_revocation_partitions),
          'tasks': list_concat(assigned_tasks, pending_revocation_tasks)},
        {'how': 'targeted', 'partitions': target_partitions, 'tasks': target_tasks}
      ]) AS list
    FROM group_members SEMI JOIN _unlike USING (offsets_partition, group_id)
  )
)
WHERE task IS NULL OR task.role = 'active'
