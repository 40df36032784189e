-- error by group_members: two members of a group have the same partition
--
-- {thing}-{partition} of {group_id} is assigned to {who}[, and so {others:is|are} {others:counted more partition}]. Both
-- read it, and each overwrites the other's commits. In a classic group the leader's assignor caused it
-- (partition.assignment.strategy), in others the coordinator: restart one of the two, and look for a bug in that release

SELECT * FROM _held_twice WHERE how = 'assigned'
