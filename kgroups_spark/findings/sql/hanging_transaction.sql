-- error by open_transactions (open_since <= $timed_out_since), pending_offsets (transaction_start_offset is null): offsets are held by a transaction that should have ended
--
-- [Producer {producer_id} opened a transaction on partition {offsets_partition} of __consumer_offsets at {since:time},
-- {age_ms:duration} ago; transaction.max.timeout.ms allows 15m by default][ (transactional.id {transactional_id})][; {why}.
-- Until it ends, consumers get UNSTABLE_OFFSET_COMMIT for {offset_count:counted offset} of {groups:some}, and nothing after
-- it in this partition is compacted. If its application is gone: kafka-transactions.sh --bootstrap-server HOST:PORT abort
-- --topic __consumer_offsets --partition {offsets_partition} --start-offset {log_offset}][{outside:counted offset} of
-- {group_id} {outside:was|were} written by producer {producer_id} outside any transaction, the first at {since:time}. A Java
-- coordinator waits for a marker that will never be written, and consumers get UNSTABLE_OFFSET_COMMIT. No client may
-- use an idempotent producer on __consumer_offsets. Deleting the offsets ends the wait: kafka-consumer-groups.sh
-- --bootstrap-server HOST:PORT --delete-offsets --group {group_id:word} --topic TOPIC:PARTITION]

WITH limits AS (
  SELECT *, coalesce(read.known_until, $known_until) - to_milliseconds($max_transaction_timeout_ms + 1) AS latest
  FROM (SELECT offsets_partition FROM open_transactions UNION SELECT offsets_partition FROM pending_offsets)
  LEFT JOIN read USING (offsets_partition)
),
-- The coordinator's listing, as in coordinator/transaction_shard.py.
producers AS (
  SELECT producer_id, bool_or(timeout_ms = 2147483647) AS is_two_phase, flatten(list(topic_partitions)) AS partitions
  FROM transactional_ids WHERE state <> 'Dead' AND len($state_partitions) > 0 GROUP BY producer_id
)
SELECT offsets_partition, CASE WHEN len(group_ids) = 1 THEN group_ids[1] END AS group_id, producer_id,
  transaction_start_offset AS log_offset, open_since AS since, offset_count,
  epoch_ms($known_until) - epoch_ms(open_since) AS age_ms,
  CASE WHEN len(group_ids) > 0 THEN group_ids ELSE ['no group'] END AS groups,
  open_transactions.transactional_id,
  CASE
    WHEN len($state_partitions) > 0 AND open_since <= $state_known_until AND partitions IS NOT NULL
      THEN 'the transaction coordinator does not list the partition'
    WHEN len($state_partitions) > 0 AND open_since <= $state_known_until AND $state_is_complete
      THEN 'the transaction coordinator does not know the producer'
    ELSE '__transaction_state was not read, or not far enough: the coordinator may know that it is still valid'
  END AS why,
  NULL AS outside
FROM open_transactions JOIN limits USING (offsets_partition) LEFT JOIN producers USING (producer_id)
WHERE open_since <= latest AND is_two_phase IS NOT TRUE
  AND list_contains(partitions, {'topic': '__consumer_offsets', 'partition': offsets_partition}) IS NOT TRUE
UNION ALL
SELECT offsets_partition, group_id, producer_id, min(log_offset), min(commit_timestamp), NULL, NULL, NULL, NULL, NULL,
  count(*)
FROM pending_offsets JOIN limits USING (offsets_partition)
WHERE transaction_start_offset IS NULL AND commit_timestamp <= latest
GROUP BY offsets_partition, group_id, producer_id
