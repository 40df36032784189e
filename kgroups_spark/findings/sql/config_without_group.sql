-- notice by cluster_facts (audit_id == $audit_id): a configuration of a group that does not exist
-- of all partitions
-- {names:some} {count:was|were} set for group {group_id}, and no group of that name exists. Configurations outlive a deleted
-- group and may precede a new one, but a mistyped name has no effect either. If it is not expected: kafka-configs.sh
-- --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name {group_id:word} --delete-config {first:word}

-- If all partitions of __consumer_offsets were read, as far as their numbers show.
SELECT group_id, list(name) AS names, count(*) AS count, min(name) AS first
FROM cluster_facts
WHERE audit_id = $audit_id AND kind = 'group_config' AND name IS NOT NULL
  AND group_id NOT IN (SELECT group_id FROM groups SEMI JOIN cluster_facts USING (group_id))
  AND (SELECT count(*) = max(offsets_partition) + 1 FROM read)
GROUP BY group_id
