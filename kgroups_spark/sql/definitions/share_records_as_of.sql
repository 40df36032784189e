-- Records of __share_group_state that make up the state of share partitions as of a moment: the newest snapshot of each, and the updates after it. A value at which a coordinator's load fails counts
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of share_group_state_records but record_name, raw_key, raw_value
-- number INT: 1: the snapshot, or the first update where there is none; then the updates after it

WITH kgroups_ends AS (
  SELECT * FROM state_log_ends_as_of(ts)
),
-- Entries that a partition no longer held when it was read again, and the log offset up to which they are gone. Without
-- a group all entries of a log that began there, after the last offset read: they are gone from its first record on.
gone AS (
  SELECT held.state_partition,
    held.reported[2] AS group_id,
    held.reported[3] AS topic_id,
    CAST(held.reported[4] AS INTEGER) AS partition,
    max(CAST(held.reported[1] AS BIGINT)) AS gone_before
  FROM (
    SELECT state_partition, from_json(payload, '["VARCHAR"]') AS reported
    FROM main.state_log_state
    WHERE log = '__share_group_state'
      AND entry_type = 'gone'
      AND audit_id = (SELECT max(audit_id) FROM main.state_log_state)
  ) AS held
  LEFT JOIN kgroups_ends AS ends ON ends.log = '__share_group_state' AND ends.state_partition = held.state_partition
  WHERE ends.end_offset IS NULL
    OR CAST(held.reported[1] AS BIGINT) < ends.end_offset
    OR (CAST(held.reported[1] AS BIGINT) = ends.end_offset AND held.reported[2] IS NOT NULL)
  GROUP BY held.state_partition, held.reported[2], held.reported[3], held.reported[4]
),
counted AS (
  SELECT records.*,
    max(CASE WHEN records.record_type = 0 THEN records.log_offset END) OVER (
      PARTITION BY records.state_partition, records.group_id, records.topic_id, records.partition
    ) AS snapshot_offset
  FROM main.share_group_state_records AS records
  LEFT JOIN kgroups_ends AS ends ON ends.log = '__share_group_state' AND ends.state_partition = records.state_partition
  LEFT JOIN gone
    ON gone.state_partition = records.state_partition AND gone.group_id = records.group_id
    AND gone.topic_id = records.topic_id AND gone.partition = records.partition
  LEFT JOIN gone AS all_gone ON all_gone.state_partition = records.state_partition AND all_gone.group_id IS NULL
  WHERE (ends.end_offset IS NULL OR records.log_offset < ends.end_offset)
    AND (gone.gone_before IS NULL OR records.log_offset >= gone.gone_before)
    AND (all_gone.gone_before IS NULL OR records.log_offset >= all_gone.gone_before)
)
SELECT *,
  CAST(
    row_number() OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset) AS INTEGER
  ) AS number
FROM counted
-- A tombstone is a snapshot without a value. A tombstone of an update is never written, and removes nothing.
WHERE value IS NOT NULL AND (snapshot_offset IS NULL OR log_offset >= snapshot_offset)
