-- error by group_members (group_instance_id is not null): two members of a group have one group.instance.id
-- of a group the first by group_instance_id
-- group.instance.id {group_instance_id} of {group_id} belongs to {members} members ({ids:some})[, and the same is true
-- of {others:counted other name}]. A coordinator keeps one member of that name. It fences or forgets the others, and
-- nobody reads their partitions. Give each instance its own name

-- In a consumer or streams group: no coordinator loads such a record of a classic group (load_would_fail).
SELECT offsets_partition, group_id, group_instance_id, max(member_id) AS member_id, max(log_offset) AS log_offset,
  count(*) AS members, list(member_id) AS ids
FROM group_members
WHERE group_instance_id IS NOT NULL
GROUP BY offsets_partition, group_id, group_instance_id
HAVING count(*) > 1
