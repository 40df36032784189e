-- warning by target_records: partitions are assigned to a member that does not exist
-- of a group the first by member_id
-- The target assignment of {group_id} assigns partitions to {member_id}[ (and for {others:counted other})], which is not a
-- member. Nobody reads them until the next assignment. A coordinator that loads this log rejects the group's tombstone while
-- the assignment exists. A member that joins triggers a new assignment

-- The member's newest target assignment is no tombstone, and its group exists, until there is a newer record.
WITH newest AS (
  SELECT offsets_partition, group_id, member_id, log_offset, log_timestamp, value_version
  FROM target_records
  QUALIFY row_number() OVER (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset DESC) = 1
)
SELECT offsets_partition, group_id, member_id, newest.log_offset, newest.log_timestamp AS since
FROM newest
JOIN groups USING (offsets_partition, group_id)
ANTI JOIN group_members USING (offsets_partition, group_id, member_id)
WHERE value_version IS NOT NULL AND group_type IS DISTINCT FROM 'classic'
