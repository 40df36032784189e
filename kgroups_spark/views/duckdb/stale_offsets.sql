CREATE OR REPLACE VIEW stale_offsets AS
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
WHERE committed.topic_id <> newest.topic_id;

COMMENT ON VIEW stale_offsets IS 'Committed offsets of topics that have been deleted and made again since: they were committed under an older topic id than the newest one that is known, and count positions in a log that is gone';
COMMENT ON COLUMN stale_offsets.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN stale_offsets.group_id IS 'Group';
COMMENT ON COLUMN stale_offsets.topic IS 'Topic';
COMMENT ON COLUMN stale_offsets.partition IS 'Partition of the topic';
COMMENT ON COLUMN stale_offsets.committed_offset IS 'Offset that the group committed';
COMMENT ON COLUMN stale_offsets.commit_timestamp IS 'Time of the commit; null: none';
COMMENT ON COLUMN stale_offsets.topic_id IS 'Topic id that it was committed under';
COMMENT ON COLUMN stale_offsets.newest_topic_id IS 'The topic''s newest id that is known';
COMMENT ON COLUMN stale_offsets.newest_since IS 'Log time of the first record with the newest one; null: only the cluster told of it';
COMMENT ON COLUMN stale_offsets.log_offset IS 'Record that committed it';
COMMENT ON COLUMN stale_offsets.is_orphan IS 'No group of that id exists: the broker neither shows nor expires it';
