-- warning by _not_held: a commit for a partition that no member owned
-- of a group the first by topic, partition
-- {topic}-{partition}[ (and for {others:counted other partition})] was committed as {group_id}[ at {since:time}], while
-- the group was Stable and none of its members owned that partition. Either a member commits a partition that it no
-- longer owns, or a producer names the group without its generation. The commit overwrites the owner's. The log does not
-- record who committed: look for manual commits after a rebalance, and pass groupMetadata() to sendOffsetsToTransaction

-- After the last change of a Stable group of consumers with named topics and partitions: only then owners are known.
WITH changed AS (
  SELECT offsets_partition, group_id, groups.log_offset AS changed_at
  FROM groups JOIN _unlike USING (offsets_partition, group_id)
  WHERE state = 'Stable' AND protocol_type = 'consumer' AND is_unread IS NOT TRUE
    AND (offsets_partition, group_id) NOT IN (
      SELECT (offsets_partition, group_id) FROM _held WHERE how = 'assigned' AND topic IS NULL
    )
)
SELECT offsets_partition, group_id, topic, partition, log_offset, commit_timestamp AS since
FROM _not_held
JOIN changed USING (offsets_partition, group_id)
WHERE log_offset > changed_at
