-- warning by group_members: one partition is in the target assignment of two members
--
-- The target assignment of {group_id} gives {thing}-{partition} to {who}[, and {others:counted more partition} to several
-- members]. The coordinator lets one member at a time have it, so the group may never become Stable. A member that joins
-- or leaves triggers a new assignment

SELECT * FROM _held_twice WHERE how = 'targeted'
