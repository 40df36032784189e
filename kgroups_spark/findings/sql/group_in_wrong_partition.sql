-- error by groups (is_misplaced == true): a group is in the wrong partition: its name hashes to another
-- of all partitions
-- {group_id} is in partition {offsets_partition} of __consumer_offsets, but its name hashes to another: {cause}. Clients
-- look for its coordinator there, [where the group is, too (partition {home}), so they fetch those offsets, and none can
-- fetch these. Look at both before you reset or delete anything: kgroups describe {group_id:option}][{nowhere} can
-- fetch these offsets. Move them: kgroups export-offsets {group_id:option} --output offsets.csv, then
-- kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {group_id:word} --reset-offsets --from-file offsets.csv
-- --execute]

-- An export has the offsets of that partition: importing them would rewind a group that has gone on since.
SELECT misplaced.offsets_partition, misplaced.group_id, misplaced.log_offset, home.offsets_partition AS home,
  CASE WHEN home.offsets_partition IS NULL THEN 'so none' END AS nowhere,
  CASE
    WHEN read.was_given IS NOT FALSE THEN 'most likely the topic''s partition count was raised'
    ELSE 'the topic no longer has that partition, or its partition count was raised (it was not read now)'
  END AS cause
FROM groups AS misplaced
LEFT JOIN (
  FROM groups SEMI JOIN (FROM groups WHERE is_misplaced) USING (group_id) WHERE NOT is_misplaced
) AS home ON home.group_id = misplaced.group_id
LEFT JOIN read ON read.offsets_partition = misplaced.offsets_partition
WHERE misplaced.is_misplaced
