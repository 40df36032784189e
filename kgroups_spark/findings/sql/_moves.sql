-- Committed offsets that moved in the records of this audit, by more than reading on: `distance` is negative if records are
-- read again, and positive if they are never read. After a removal this is certain only for some causes: a new topic begins
-- at 0, and consumers that assign themselves go on where they were.
SELECT moved.offsets_partition, moved.group_id, moved.topic, moved.partition, moved.log_offset, moved.offset_before,
  moved.offset_after, moved.event_timestamp AS since, moved.offset_after - moved.offset_before AS distance
FROM (SELECT * FROM group_events WHERE audit_id = $audit_id AND offset_before >= 0 AND offset_after >= 0) AS moved
LEFT JOIN groups USING (offsets_partition, group_id)
ASOF LEFT JOIN removals ON moved.offsets_partition = removals.offsets_partition AND moved.group_id = removals.group_id
  AND moved.topic = removals.topic AND moved.partition = removals.partition AND moved.log_offset >= removals.log_offset
WHERE moved.cause IS DISTINCT FROM 'topic_recreated' AND CASE
  WHEN event <> 'offset_restarted' THEN true
  WHEN moved.offset_after < moved.offset_before THEN removals.cause IN ('expired', 'group_deleted', 'offset_deleted')
  ELSE removals.cause IN ('expired', 'group_deleted') AND is_simple IS FALSE
END
