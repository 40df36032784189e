-- warning by groups (group_epoch is not null): a group's whole assignment is close to the broker's size limit
--
-- The target assignment of {group_id}, for {members:counted member}, is about {size_bytes:size}. The coordinator writes all that
-- changes in one batch, and with its default, message.max.bytes, a broker takes batches of 1.0 MB. If more changes at once, no
-- assignment is made any more, and new members get nothing. Use fewer members or topics, split the group, or raise
-- max.message.bytes of __consumer_offsets

-- Not of classic groups, whose assignment is in one record (group_record_near_limit). By the record's fields: topic ids have 16
-- bytes, numbers of partitions 4; of a record about 26 are its own.
SELECT offsets_partition, group_id, max(log_offset) AS log_offset, count(*) AS members, CAST(sum(size_bytes) AS BIGINT) AS size_bytes
FROM (
  SELECT offsets_partition, group_id, log_offset,
    26 + strlen(group_id) + strlen(member_id) + 4 * coalesce(len(target_partitions), 0) + 4 * coalesce(len(target_tasks), 0)
      + 19 * coalesce(len(list_distinct(list_transform(target_partitions, lambda each: each.topic_id))), 0) AS size_bytes
  FROM group_members
  WHERE target_partitions IS NOT NULL OR target_tasks IS NOT NULL
)
GROUP BY offsets_partition, group_id
HAVING sum(size_bytes) >= 838870
