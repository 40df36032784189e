-- Spans during which an offset of a group was pending in an open transaction: consumers that asked for stable offsets (Java consumers since 2.5) got UNSTABLE_OFFSET_COMMIT and waited. By the rules of Kafka 3.8 and newer
--
-- offsets_partition, group_id, topic, partition of committed_offsets
-- from: Log time of the first record that was pending; null: it has none
-- to: Log time of the marker or tombstone that ended the span; null: not ended, or unknown (see ended_by)
-- duration_ms: From from to to; null: one of them is, or the first is later (the clock was set back)
-- ended_by: committed or aborted: by the last marker; tombstone: the offset was removed with its pending values; not_in_log: a partition that was read again no longer held it, so that its end is unknown; null: not ended
-- producer_id: Producer of the first record
-- from_log_offset: The first record that was pending
-- to_log_offset: The marker or tombstone, or (not_in_log) the end of the log read so far; null: not ended

-- Values of producers, whose transactions are completed there, and tombstones.
WITH events AS (
  SELECT offsets_partition, group_id, topic, partition, log_offset, log_timestamp, producer_id, outcome, marker_offset,
    corrected_log_offset,
    committed_offset IS NULL AS is_tombstone
  FROM effective_commits
  WHERE producer_id IS NOT NULL OR committed_offset IS NULL
),
followed AS (
  SELECT *,
    -- A tombstone removes what any producer has pending, whether or not its own transaction ever ends.
    min(CASE WHEN is_tombstone THEN struct_pack(log_offset := log_offset, log_timestamp := log_timestamp) END) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset
      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS tombstone
  FROM events
),
pending AS (
  SELECT followed.*, markers.log_timestamp AS marker_timestamp,
    -- A value that took effect and was corrected later ended with its marker.
    CASE WHEN followed.marker_offset IS NULL THEN followed.corrected_log_offset END AS dropped_log_offset
  FROM followed
  LEFT JOIN transaction_markers AS markers
    ON markers.offsets_partition = followed.offsets_partition AND markers.log_offset = followed.marker_offset
  WHERE NOT followed.is_tombstone
),
ended AS (
  SELECT *,
    -- The greatest BIGINT: not yet.
    coalesce(least(marker_offset, tombstone.log_offset, dropped_log_offset), 9223372036854775807) AS end_log_offset
  FROM pending
),
reported AS (
  SELECT *,
    CASE
      WHEN end_log_offset = tombstone.log_offset THEN tombstone.log_timestamp
      WHEN end_log_offset = marker_offset THEN marker_timestamp
    END AS end_timestamp,
    CASE
      WHEN end_log_offset = tombstone.log_offset THEN 'tombstone'
      WHEN end_log_offset = marker_offset THEN outcome
      WHEN end_log_offset = dropped_log_offset THEN 'not_in_log'
    END AS ended_by,
    max(end_log_offset) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS pending_until
  FROM ended
),
-- Transactions of several producers may overlap.
numbered AS (
  SELECT *,
    sum(CASE WHEN log_offset < pending_until THEN 0 ELSE 1 END) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset
    ) AS period
  FROM reported
),
periods AS (
  SELECT offsets_partition, group_id, topic, partition,
    min(struct_pack(log_offset := log_offset, log_timestamp := log_timestamp, producer_id := producer_id))
      AS first_record,
    max(struct_pack(end_log_offset := end_log_offset, end_timestamp := end_timestamp, ended_by := ended_by))
      AS last_end
  FROM numbered
  GROUP BY offsets_partition, group_id, topic, partition, period
)
SELECT *, first_record.log_timestamp AS "from", last_end.end_timestamp AS "to",
  nullif(greatest(-1, epoch_ms(last_end.end_timestamp) - epoch_ms(first_record.log_timestamp)), -1) AS duration_ms,
  last_end.ended_by, first_record.producer_id, first_record.log_offset AS from_log_offset,
  CASE WHEN last_end.ended_by IS NOT NULL THEN last_end.end_log_offset END AS to_log_offset
FROM periods
