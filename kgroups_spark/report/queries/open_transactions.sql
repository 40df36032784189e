SELECT open.producer_id, open.transactional_id, open.offsets_partition, open.open_since,
  -- By Kafka's rule, as the findings have it.
  hanging.producer_id IS NOT NULL AS is_hanging,
  count(pending.log_offset) AS offsets, min(pending.group_id) AS group_id,
  count(DISTINCT pending.group_id) AS group_count,
  read.end_offset - open.transaction_start_offset AS records_held
FROM open_transactions AS open
LEFT JOIN (
  SELECT DISTINCT offsets_partition, producer_id, log_offset
  FROM findings
  WHERE finding = 'hanging_transaction' AND audit_id = (SELECT audit_id FROM findings_audit)
) AS hanging
  ON hanging.offsets_partition = open.offsets_partition AND hanging.producer_id = open.producer_id
  AND hanging.log_offset = open.transaction_start_offset
LEFT JOIN pending_offsets AS pending
  ON pending.offsets_partition = open.offsets_partition AND pending.producer_id = open.producer_id
LEFT JOIN log_totals AS read ON read.offsets_partition = open.offsets_partition
GROUP BY ALL
ORDER BY open.open_since NULLS LAST, open.producer_id, open.offsets_partition
