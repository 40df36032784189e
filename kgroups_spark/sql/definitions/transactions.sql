-- Transactions that wrote to a partition of __consumer_offsets, ended and open
--
-- offsets_partition of open_transactions
-- producer_id: Producer
-- producer_epoch: Epoch of the marker that ended it (one above that of its records, with transactions version 2), or of the records of an open one; null: none
-- transaction_start_offset: Its first record, after the producer's previous marker
-- started_timestamp: Log time of that record; null: it has none, or is no longer in history (kgroups maintain --keep)
-- ended_timestamp: Log time of its marker; null: it is open, or the marker has no time
-- duration_ms: From started_timestamp to ended_timestamp; null: one is unknown, or the first is later (the clock was set back)
-- outcome: committed or aborted; null: open
-- marker_offset: Log offset of its marker; null: open
-- group_ids: Groups whose offsets were counted in it
-- offset_count: Offsets in it, without those in quarantine when the marker was read (offset_history has them if they were decoded later)
-- transactional_id: transactional.id of the producer; null: __transaction_state was not read, or does not have it

WITH ended AS (
  SELECT offsets_partition, producer_id, producer_epoch, transaction_start_offset, log_timestamp AS ended_timestamp,
    outcome, log_offset AS marker_offset, group_ids, offset_count
  FROM transaction_markers
  -- A marker without a record before it, repeated or left over from compaction, ends nothing.
  WHERE transaction_start_offset IS NOT NULL
)
SELECT ended.offsets_partition, ended.producer_id, ended.producer_epoch, ended.transaction_start_offset,
  records.log_timestamp AS started_timestamp, ended.ended_timestamp,
  nullif(greatest(-1, epoch_ms(ended.ended_timestamp) - epoch_ms(records.log_timestamp)), -1) AS duration_ms,
  ended.outcome, ended.marker_offset, ended.group_ids, ended.offset_count, names.transactional_id
FROM ended
LEFT JOIN _transactional_records AS records
  ON records.offsets_partition = ended.offsets_partition AND records.log_offset = ended.transaction_start_offset
LEFT JOIN transactional_producers AS names ON names.producer_id = ended.producer_id
UNION ALL
SELECT offsets_partition, producer_id, producer_epoch, transaction_start_offset, open_since, NULL, NULL, NULL, NULL,
  group_ids, offset_count, transactional_id
FROM open_transactions
