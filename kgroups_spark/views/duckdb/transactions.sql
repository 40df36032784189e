CREATE OR REPLACE VIEW transactions AS
WITH ended AS (
  SELECT
    offsets_partition,
    producer_id,
    producer_epoch,
    transaction_start_offset,
    log_timestamp AS ended_timestamp,
    outcome,
    log_offset AS marker_offset,
    group_ids,
    offset_count
  FROM transaction_markers
  -- A marker without a record before it, repeated or left over from compaction, ends nothing.
  WHERE transaction_start_offset IS NOT NULL
),
-- Every record that may begin one. Of what was decoded later the record stands in its own table.
records AS (
  SELECT offsets_partition, log_offset, log_timestamp FROM offset_commits WHERE is_transactional
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM group_records WHERE is_transactional
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM quarantine
  WHERE producer_id IS NOT NULL AND record_count = 1 AND resolved_by IS NULL
)
SELECT
  ended.offsets_partition,
  ended.producer_id,
  ended.producer_epoch,
  ended.transaction_start_offset,
  records.log_timestamp AS started_timestamp,
  ended.ended_timestamp,
  epoch_ms(ended.ended_timestamp) - epoch_ms(records.log_timestamp) AS duration_ms,
  ended.outcome,
  ended.marker_offset,
  ended.group_ids,
  ended.offset_count
FROM ended
LEFT JOIN records
  ON records.offsets_partition = ended.offsets_partition AND records.log_offset = ended.transaction_start_offset
UNION ALL
SELECT
  offsets_partition,
  producer_id,
  producer_epoch,
  transaction_start_offset,
  open_since,
  NULL,
  NULL,
  NULL,
  NULL,
  group_ids,
  offset_count
FROM open_transactions;

COMMENT ON VIEW transactions IS 'Transactions that wrote to a partition of __consumer_offsets, ended and open';
COMMENT ON COLUMN transactions.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN transactions.producer_id IS 'Producer';
COMMENT ON COLUMN transactions.producer_epoch IS 'Epoch of the marker that ended it (with Kafka''s transactions of version 2 one above that of its records), of an open one that of its records; null: none';
COMMENT ON COLUMN transactions.transaction_start_offset IS 'Its first record after the producer''s marker before';
COMMENT ON COLUMN transactions.started_timestamp IS 'Log time of that record; null: it has none, or is no longer in history (kgroups maintain --keep)';
COMMENT ON COLUMN transactions.ended_timestamp IS 'Log time of its marker; null: it is open, or the marker has no time';
COMMENT ON COLUMN transactions.duration_ms IS 'Between the two; null: one is not known';
COMMENT ON COLUMN transactions.outcome IS 'committed or aborted; null: open';
COMMENT ON COLUMN transactions.marker_offset IS 'Place of its marker; null: open';
COMMENT ON COLUMN transactions.group_ids IS 'Groups whose offsets were in it';
COMMENT ON COLUMN transactions.offset_count IS 'Offsets in it';
