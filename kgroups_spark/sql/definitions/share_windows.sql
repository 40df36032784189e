-- The window of each share partition: the offsets from its start offset to the last one whose state is stored. A lower bound, because records in flight are not stored. A broker acquires no new records when the window has share.partition.max.record.locks offsets
--
-- state_partition, group_id, topic, topic_id, partition, start_offset of share_partitions
-- window_records: Offsets in the window, at least; null: the start offset is not set
-- available: Records among them that are stored as available, and can be delivered again
-- record_locks: The group's share.partition.max.record.locks, else the brokers' group.share.partition.max.record.locks; null: unknown
-- is_full: The window is full and none of its stored records is available: fetches return nothing; false: not shown by the log; null: a number is unknown

WITH stored AS (
  SELECT group_id, topic_id, partition, max(last_offset) AS last_offset,
    sum(CASE
      WHEN delivery_state = 'available' AND last_offset >= first_offset
        THEN CAST(last_offset AS DECIMAL(38, 0)) - first_offset + 1
      ELSE 0
    END) AS available
  FROM share_batches
  GROUP BY group_id, topic_id, partition
),
locks AS (
  SELECT group_id, max(TRY_CAST(value AS BIGINT)) AS record_locks
  FROM group_settings
  WHERE name = 'share.partition.max.record.locks'
  GROUP BY group_id
),
windows AS (
  SELECT partitions.*, locks.record_locks,
    TRY_CAST(coalesce(stored.available, 0) AS BIGINT) AS available,
    CASE
      WHEN start_offset IS NOT NULL
        THEN TRY_CAST(greatest(CAST(stored.last_offset AS DECIMAL(38, 0)) - start_offset + 1, 0) AS BIGINT)
    END AS window_records
  FROM share_partitions AS partitions
  LEFT JOIN stored USING (group_id, topic_id, partition)
  LEFT JOIN locks USING (group_id)
)
SELECT *, window_records >= record_locks AND available = 0 AS is_full
FROM windows
