-- Transactions, the longest open first; records after it: those that the cleaner cannot reach
-- producer_id Producer id; transactional_id- Transactional id; open_since- Open since (UTC) :time; age Age; verdict
-- Hanging; groups Group; offsets Offsets :count; offsets_partition- Offsets partition :count; records_held- Records
-- after it :count

SELECT open.producer_id, open.transactional_id, open.offsets_partition, open.open_since,
  -- By Kafka's rule, as the findings have it.
  hanging.is_hanging IS NOT NULL AS is_hanging,
  count(pending.log_offset) AS offsets, min(pending.group_id) AS group_id,
  count(DISTINCT pending.group_id) AS group_count,
  read.end_offset - open.transaction_start_offset AS records_held
FROM open_transactions AS open
LEFT JOIN (
  SELECT DISTINCT offsets_partition, producer_id, log_offset AS transaction_start_offset, true AS is_hanging
  FROM current_findings
  WHERE finding = 'hanging_transaction'
) AS hanging USING (offsets_partition, producer_id, transaction_start_offset)
LEFT JOIN pending_offsets AS pending USING (offsets_partition, producer_id)
LEFT JOIN log_totals AS read USING (offsets_partition)
GROUP BY ALL
ORDER BY open.open_since NULLS LAST, open.producer_id, open.offsets_partition
