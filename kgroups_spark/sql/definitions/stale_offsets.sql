-- Committed offsets of topics that have been deleted and created again since: they have an older topic id than the newest known one, and point into a deleted log
--
-- offsets_partition, group_id, topic, partition of committed_offsets
-- committed_offset: Offset that the group committed
-- commit_timestamp: Time of the commit; null: none
-- topic_id: Topic id with which it was committed
-- newest_topic_id: The topic's newest known id
-- newest_since: Log time of the first record with the newest one; null: only the cluster reported it
-- log_offset, is_orphan of committed_offsets

SELECT committed.*, newest.topic_id AS newest_topic_id, newest.valid_from AS newest_since
FROM committed_offsets AS committed
JOIN topic_ids AS newest ON newest.topic = committed.topic AND newest.is_newest
WHERE committed.topic_id <> newest.topic_id
