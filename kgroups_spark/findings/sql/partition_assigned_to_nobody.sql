-- warning by _not_held: a partition of a subscribed topic is assigned to no member
-- of a group the first by topic, partition
-- {topic}-{partition} of {group_id}[, and so {others:is|are} {others:counted more partition}] is
-- assigned to no member, though the group is Stable and has a committed offset there. Nobody reads it, and its lag grows. In a
-- classic group the leader's assignor left it out (partition.assignment.strategy), in others the coordinator's. Restart the
-- group's leader, or let a member join: that triggers a new assignment. If the topic was created again with fewer partitions,
-- the partition is gone

-- A group of whose members one's subscription or assignment is unknown may have assigned it, as may one whose topics have no
-- names. Partitions that the cluster does not have, and topics that were created again, are other findings.
WITH subscribed AS (
  SELECT offsets_partition, group_id, unnest(subscribed_topics) AS topic FROM group_members
  UNION
  SELECT offsets_partition, group_id, unnest(flatten(map_values(resolved_regex_topics))) FROM groups
)
SELECT offsets_partition, group_id, topic, partition, _not_held.log_offset
FROM _not_held
JOIN groups USING (offsets_partition, group_id)
SEMI JOIN subscribed USING (offsets_partition, group_id, topic)
ANTI JOIN (
  SELECT offsets_partition, group_id FROM group_members WHERE subscribed_topics IS NULL
  UNION ALL
  SELECT offsets_partition, group_id FROM _unlike WHERE is_unread
  UNION ALL
  SELECT offsets_partition, group_id FROM _held WHERE how = 'assigned' AND topic IS NULL
) USING (offsets_partition, group_id)
ANTI JOIN (
  SELECT topic, partition FROM topic_offsets WHERE audit_id = $audit_id AND status <> 'ok'
) USING (topic, partition)
ANTI JOIN (SELECT topic FROM topics GROUP BY topic HAVING count(*) > 1) USING (topic)
WHERE state = 'Stable' AND (group_type = 'consumer' OR group_type = 'classic' AND protocol_type = 'consumer')
