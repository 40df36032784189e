-- warning by share_partitions: state of a share group that does not exist
-- of all partitions
-- __share_group_state holds {partitions:counted share partition} of {group_id}, and no share group of that name exists: its
-- deletion was not finished, or its records are gone from __consumer_offsets. A new group of that name resumes from this
-- state once it is initialized. If it is no longer needed, create the group again and delete it: kafka-share-groups.sh
-- --bootstrap-server HOST:PORT --delete --group {group_id:word}

-- If all partitions of __consumer_offsets were read, as far as their numbers show.
SELECT group_id, topic, partition, log_timestamp AS since, count(*) OVER of_group AS partitions
FROM share_partitions
WHERE init_state IS NULL AND log_offset IS NOT NULL
  AND group_id NOT IN (SELECT group_id FROM groups WHERE group_type = 'share')
  AND (SELECT count(*) = max(offsets_partition) + 1 FROM read)
WINDOW of_group AS (PARTITION BY group_id)
QUALIFY row_number() OVER (of_group ORDER BY topic_id, partition) = 1
