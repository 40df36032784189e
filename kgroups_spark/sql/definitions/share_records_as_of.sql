-- Records of __share_group_state that make up the state of share partitions as of a moment: the newest snapshot of each, and the updates after it. A value at which a coordinator's load fails counts
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of share_group_state_records but record_name, raw_key, raw_value
-- number INT: 1: the snapshot, or the first update where there is none; then the updates after it

WITH kgroups_ends AS (
  SELECT * FROM state_log_ends_as_of(ts) WHERE log = '__share_group_state'
),
-- All entries of a log that began after the last offset read are gone from its first record on.
gone AS (
  SELECT state_partition, name AS group_id, topic_id, partition, max(gone_before) AS gone_before
  FROM _gone
  LEFT JOIN kgroups_ends USING (log, state_partition)
  WHERE log = '__share_group_state'
    AND (end_offset IS NULL OR gone_before < end_offset OR (gone_before = end_offset AND name IS NOT NULL))
  GROUP BY state_partition, name, topic_id, partition
),
counted AS (
  SELECT records.*,
    max(CASE WHEN record_type = 0 THEN log_offset END) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition
    ) AS snapshot_offset
  FROM main.share_group_state_records AS records
  LEFT JOIN kgroups_ends USING (state_partition)
  LEFT JOIN gone USING (state_partition, group_id, topic_id, partition)
  LEFT JOIN (SELECT state_partition, gone_before AS all_gone_before FROM gone WHERE group_id IS NULL) AS all_gone
    USING (state_partition)
  WHERE (end_offset IS NULL OR log_offset < end_offset)
    AND (gone_before IS NULL OR log_offset >= gone_before)
    AND (all_gone_before IS NULL OR log_offset >= all_gone_before)
)
SELECT *,
  CAST(
    row_number() OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset) AS INTEGER
  ) AS number
FROM counted
-- A tombstone is a snapshot without a value. A tombstone of an update is never written, and removes nothing.
WHERE value IS NOT NULL AND (snapshot_offset IS NULL OR log_offset >= snapshot_offset)
