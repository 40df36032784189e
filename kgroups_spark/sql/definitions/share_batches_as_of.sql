-- Stored batches of share partitions as of a moment (column known shows whether history is complete for it; for an empty answer, ask state_known_as_of), by the rules of Kafka 4.4, regardless of the audits' release: older releases do not merge some adjacent equal batches
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of share_batches
-- audit_id: The newest audit that read a record of the share partition (table audits)
-- known of share_partitions_as_of

WITH kgroups_known AS (
  SELECT * FROM state_known_as_of(ts)
),
kgroups_records AS (
  SELECT * FROM share_records_as_of(ts)
),
records AS (
  SELECT *,
    from_json(
      value,
      '{"startOffset": "BIGINT",
        "stateBatches": [
          {"firstOffset": "BIGINT", "lastOffset": "BIGINT", "deliveryState": "INTEGER", "deliveryCount": "INTEGER"}
        ]}'
    ) AS v
  FROM kgroups_records
),
started AS (
  SELECT *, max(audit_id) OVER its AS newest_audit_id, count(*) OVER its AS records,
    last_value(nullif(v."startOffset", -1) IGNORE NULLS) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS start_offset
  FROM records
  WINDOW its AS (PARTITION BY state_partition, group_id, topic_id, partition)
),
-- Each update drops batches below its start offset; a snapshot counts as it was written.
dropped AS (
  SELECT *,
    max(CASE WHEN number > 1 THEN start_offset END) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset
      ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) AS dropped_before
  FROM started
),
written AS (
  SELECT newest_audit_id AS audit_id, state_partition, group_id, topic_id, partition, records, dropped_before,
    unnest(v."stateBatches") AS batch
  FROM dropped
),
batches AS (
  SELECT audit_id, state_partition, group_id, topic_id, partition,
    CASE WHEN batch."firstOffset" < dropped_before THEN dropped_before ELSE batch."firstOffset" END AS first_offset,
    batch."lastOffset" AS last_offset,
    -- As PersisterStateBatch compares them: by count, then by state.
    (batch."deliveryCount" + 32768) * 256 + batch."deliveryState" + 128 AS priority,
    records = 1 OR count(*) OVER (PARTITION BY state_partition, group_id, topic_id, partition) = 1 AS is_as_written
  FROM written
  WHERE dropped_before IS NULL OR batch."lastOffset" >= dropped_before
),
-- From border to border the highest priority counts.
borders AS (
  SELECT state_partition, group_id, topic_id, partition, first_offset AS border FROM batches WHERE NOT is_as_written
  UNION
  SELECT state_partition, group_id, topic_id, partition, last_offset + 1
  FROM batches
  WHERE NOT is_as_written AND last_offset < 9223372036854775807
),
pieces AS (
  SELECT *,
    coalesce(
      lead(border) OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY border) - 1,
      9223372036854775807
    ) AS last_offset
  FROM borders
),
covered AS (
  SELECT max(audit_id) AS audit_id, state_partition, group_id, topic_id, partition,
    border AS first_offset, max(pieces.last_offset) AS last_offset, max(priority) AS priority
  FROM pieces
  JOIN batches USING (state_partition, group_id, topic_id, partition)
  WHERE batches.first_offset <= border AND batches.last_offset >= border
  GROUP BY state_partition, group_id, topic_id, partition, border
),
-- Adjacent equal ones are one.
marked AS (
  SELECT *,
    CASE WHEN lag(last_offset) OVER its + 1 = first_offset AND lag(priority) OVER its = priority THEN 0 ELSE 1 END
      AS is_first
  FROM covered
  WINDOW its AS (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY first_offset)
),
counted AS (
  SELECT *,
    sum(is_first) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition ORDER BY first_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS batch
  FROM marked
),
combined AS (
  SELECT audit_id, state_partition, group_id, topic_id, partition, first_offset, last_offset, priority
  FROM batches
  WHERE is_as_written
  UNION ALL
  SELECT max(audit_id), state_partition, group_id, topic_id, partition, min(first_offset), max(last_offset),
    max(priority)
  FROM counted
  GROUP BY state_partition, group_id, topic_id, partition, batch
),
-- Groups with a share.delivery.count.limit of their own, which may be unknown; group_id null: any group may have one.
own AS (
  SELECT group_id, max(TRY_CAST(trim(value) AS BIGINT)) AS delivery_count_limit
  FROM _cluster
  WHERE kind = 'group_config' AND (name IS NULL OR name = 'share.delivery.count.limit')
  GROUP BY group_id
),
-- The limit on which the brokers agree, if it counts for all other groups, else the option's.
brokers AS (
  SELECT
    CASE
      WHEN count(DISTINCT CASE WHEN source <> 'option' THEN trim(value) END) = 1
        AND NOT EXISTS (SELECT 1 FROM own WHERE group_id IS NULL)
        THEN max(CASE WHEN source <> 'option' THEN TRY_CAST(trim(value) AS BIGINT) END)
      ELSE max(CASE WHEN source = 'option' THEN TRY_CAST(value AS BIGINT) END)
    END AS delivery_count_limit
  FROM _cluster
  WHERE name = 'group.share.delivery.count.limit'
),
reported AS (
  SELECT combined.*,
    CASE WHEN own.group_id IS NULL THEN brokers.delivery_count_limit ELSE own.delivery_count_limit END
      AS delivery_count_limit,
    CAST(floor(combined.priority / 256) AS INTEGER) - 32768 AS delivery_count,
    CAST(combined.priority % 256 AS INTEGER) - 128 AS state
  FROM combined
  LEFT JOIN own ON own.group_id = combined.group_id
  CROSS JOIN brokers
)
SELECT reported.*, names.topic,
  CASE state
    WHEN 0 THEN 'available'
    WHEN 1 THEN 'acquired'
    WHEN 2 THEN 'acknowledged'
    WHEN 3 THEN 'archiving'
    WHEN 4 THEN 'archived'
    ELSE CAST(state AS VARCHAR)
  END AS delivery_state,
  CAST(CASE
    WHEN state = 0 AND delivery_count_limit IS NOT NULL THEN greatest(delivery_count_limit - delivery_count, 0)
  END AS INTEGER) AS attempts_left,
  CASE
    WHEN state IN (3, 4) AND delivery_count >= delivery_count_limit THEN 'attempts_used_up'
    WHEN state IN (3, 4) AND delivery_count < delivery_count_limit THEN 'rejected_or_gap'
  END AS archived_as,
  (SELECT known FROM kgroups_known WHERE log = '__share_group_state') AS known
FROM reported
LEFT JOIN _topic_names AS names ON names.topic_id = reported.topic_id
