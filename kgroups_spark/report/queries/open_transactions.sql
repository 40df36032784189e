SELECT
  open.producer_id,
  open.transactional_id,
  open.offsets_partition,
  open.open_since,
  open.open_since < last_audit.as_of - INTERVAL '15' MINUTE AS is_hanging,
  count(pending.log_offset) AS offsets,
  min(pending.group_id) AS group_id,
  count(DISTINCT pending.group_id) AS group_count,
  read.end_offset - open.transaction_start_offset AS records_held
FROM open_transactions AS open
CROSS JOIN last_audit
LEFT JOIN pending_offsets AS pending
  ON pending.offsets_partition = open.offsets_partition AND pending.producer_id = open.producer_id
LEFT JOIN log_totals AS read ON read.offsets_partition = open.offsets_partition
GROUP BY
  open.producer_id, open.transactional_id, open.offsets_partition, open.open_since, last_audit.as_of,
  read.end_offset, open.transaction_start_offset
ORDER BY open.open_since, open.producer_id
