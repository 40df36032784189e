-- Transactional ids as of a moment (column known shows whether history is complete for it; for an empty answer, ask state_known_as_of), by the rules of Kafka 4.4, regardless of the audits' release
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of transactional_ids
-- audit_id: The audit that read the record (table audits)
-- known STRING: The history's knowledge of the moment, as from state_known_as_of(ts) for __transaction_state: complete, incomplete, reduced, before or after

WITH kgroups_ends AS (
  SELECT * FROM state_log_ends_as_of(ts) WHERE log = '__transaction_state'
),
kgroups_known AS (
  SELECT * FROM state_known_as_of(ts)
),
gone AS (
  SELECT state_partition, name AS transactional_id, max(gone_before) AS gone_before
  FROM _gone
  LEFT JOIN kgroups_ends USING (log, state_partition)
  WHERE log = '__transaction_state' AND (end_offset IS NULL OR gone_before <= end_offset)
  GROUP BY state_partition, name
),
decoded AS (
  SELECT audit_id, state_partition, transactional_id, log_offset, value IS NULL AS is_removed,
    from_json(
      value,
      '{"producerId": "BIGINT", "producerEpoch": "SMALLINT", "previousProducerId": "BIGINT",
        "nextProducerId": "BIGINT", "nextProducerEpoch": "SMALLINT", "clientTransactionVersion": "INTEGER",
        "transactionStatus": "INTEGER", "transactionTimeoutMs": "INTEGER",
        "transactionPartitions": [{"topic": "VARCHAR", "partitionIds": ["INTEGER"]}],
        "transactionStartTimestampMs": "BIGINT", "transactionLastUpdateTimestampMs": "BIGINT"}'
    ) AS v
  FROM main.transaction_state_records AS records
  LEFT JOIN kgroups_ends USING (state_partition)
  LEFT JOIN gone USING (state_partition, transactional_id)
  WHERE (end_offset IS NULL OR log_offset < end_offset)
    AND (gone_before IS NULL OR log_offset >= gone_before)
),
-- A value at which a load fails changes nothing.
numbered AS (
  SELECT *,
    row_number() OVER (PARTITION BY state_partition, transactional_id ORDER BY log_offset DESC) AS age
  FROM decoded
  WHERE is_removed
    OR (
      v."transactionStatus" BETWEEN 0 AND 7
      AND (v."transactionStatus" = 0 OR v."transactionPartitions" IS NOT NULL)
      AND coalesce(v."clientTransactionVersion", 0) BETWEEN 0 AND 2
    )
),
-- The brokers' shortest, else Kafka's default.
settings AS (
  SELECT coalesce(min(TRY_CAST(trim(value) AS BIGINT)), 604800000) AS expiration_ms
  FROM _cluster
  WHERE name = 'transactional.id.expiration.ms'
)
SELECT *,
  nullif(v."producerId", -1) AS producer_id,
  nullif(v."producerEpoch", -1) AS producer_epoch,
  nullif(v."previousProducerId", -1) AS previous_producer_id,
  nullif(v."nextProducerId", -1) AS next_producer_id,
  nullif(v."nextProducerEpoch", -1) AS next_producer_epoch,
  CASE v."transactionStatus"
    WHEN 0 THEN 'Empty'
    WHEN 1 THEN 'Ongoing'
    WHEN 2 THEN 'PrepareCommit'
    WHEN 3 THEN 'PrepareAbort'
    WHEN 4 THEN 'CompleteCommit'
    WHEN 5 THEN 'CompleteAbort'
    WHEN 6 THEN 'Dead'
    WHEN 7 THEN 'PrepareEpochFence'
  END AS state,
  v."transactionTimeoutMs" AS timeout_ms,
  CASE
    WHEN v."transactionStatus" = 0 THEN []
    ELSE list_sort(list_distinct(flatten(list_transform(
      v."transactionPartitions",
      lambda of_topic: list_transform(
        of_topic."partitionIds", lambda number: {'topic': of_topic.topic, 'partition': number}
      )
    ))))
  END AS topic_partitions,
  make_timestamptz(1000 * CASE
    WHEN v."transactionStartTimestampMs" <> -1 THEN least(greatest(v."transactionStartTimestampMs", -62135596800000), 253402300799999)
  END) AS start_timestamp,
  make_timestamptz(1000 * CASE
    WHEN v."transactionLastUpdateTimestampMs" <> -1 THEN least(greatest(v."transactionLastUpdateTimestampMs", -62135596800000), 253402300799999)
  END) AS last_update_timestamp,
  CASE
    WHEN v."transactionStatus" IN (0, 4, 5) THEN make_timestamptz(1000 * least(
      greatest(least(v."transactionLastUpdateTimestampMs", 253402300799999) + expiration_ms, -62135596800000),
      253402300799999
    ))
  END AS expires_at,
  (SELECT known FROM kgroups_known WHERE log = '__transaction_state') AS known
FROM numbered
CROSS JOIN settings
WHERE age = 1 AND NOT is_removed
