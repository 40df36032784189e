CREATE OR REPLACE TEMPORARY VIEW stale_offsets (
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  group_id COMMENT 'Group',
  topic COMMENT 'Topic',
  partition COMMENT 'Partition of the topic',
  committed_offset COMMENT 'Offset that the group committed',
  commit_timestamp COMMENT 'Time of the commit; null: none',
  topic_id COMMENT 'Topic id that it was committed under',
  newest_topic_id COMMENT 'The topic''s newest id that is known',
  newest_since COMMENT 'Log time of the first record with the newest one; null: only the cluster told of it',
  log_offset COMMENT 'Record that committed it',
  is_orphan COMMENT 'No group of that id exists: the broker neither shows nor expires it'
)
COMMENT 'Committed offsets of topics that have been deleted and made again since: they were committed under an older topic id than the newest one that is known, and count positions in a log that is gone'
AS
SELECT
  committed.offsets_partition,
  committed.group_id,
  committed.topic,
  committed.partition,
  committed.committed_offset,
  committed.commit_timestamp,
  committed.topic_id,
  newest.topic_id AS newest_topic_id,
  newest.valid_from AS newest_since,
  committed.log_offset,
  committed.is_orphan
FROM committed_offsets AS committed
JOIN topic_ids AS newest ON newest.topic = committed.topic AND newest.is_newest
WHERE committed.topic_id <> newest.topic_id
