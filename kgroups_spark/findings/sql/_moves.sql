-- Committed offsets that moved in the records of this audit, by more than reading on: `distance` is negative if records are
-- read again, and positive if they are never read: neither before an earlier move back, nor after a later one. After a
-- removal this is certain only for some causes: a new topic begins at 0, and consumers that assign themselves go on where
-- they were.
WITH placed AS (
  SELECT *, cause IS NOT DISTINCT FROM 'topic_recreated' AS is_other_topic, lag(cause) OVER of_offset AS cause_before,
    lag(offset_after) OVER of_offset AS moved_to,
    count(*) FILTER (cause = 'topic_recreated') OVER of_offset AS life
  FROM moved
  SEMI JOIN (FROM moved WHERE audit_id = $audit_id AND event IN ('offset_rewound', 'offset_skipped', 'offset_restarted'))
    USING (offsets_partition, group_id)
  WHERE event IN ('offset_rewound', 'offset_skipped', 'offset_restarted', 'offset_removed')
  WINDOW of_offset AS (PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset, event_index)
),
bounds AS (
  SELECT *,
    max(offset_before) FILTER (NOT is_other_topic AND offset_before IS DISTINCT FROM moved_to)
      OVER (of_life ORDER BY log_offset, event_index) AS reached,
    min(offset_after) OVER (of_life ORDER BY log_offset DESC, event_index DESC) AS comes_back_to
  FROM placed
  WHERE offset_before >= 0 AND offset_after >= 0
  WINDOW of_life AS (PARTITION BY offsets_partition, group_id, topic, partition, life)
)
SELECT offsets_partition, group_id, topic, partition, bounds.log_offset, offset_before, offset_after, event_timestamp AS since,
  CASE
    WHEN offset_after < offset_before THEN offset_after - offset_before
    ELSE greatest(0, comes_back_to - greatest(offset_before, coalesce(reached, offset_before)))
  END AS distance
FROM bounds LEFT JOIN groups USING (offsets_partition, group_id)
WHERE bounds.audit_id = $audit_id AND NOT is_other_topic AND CASE
  WHEN event <> 'offset_restarted' THEN true
  WHEN offset_after < offset_before THEN cause_before IN ('expired', 'group_deleted', 'offset_deleted')
  ELSE cause_before IN ('expired', 'group_deleted') AND is_simple IS FALSE
END
