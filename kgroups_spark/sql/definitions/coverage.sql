-- The part of each partition's log of __consumer_offsets that is in the history tables
--
-- offsets_partition of committed_offsets
-- first_log_offset: First record in the history tables; null: there is none
-- complete_from: From here on history has every record: none was compacted away or lost before it was read, corrupt, or removed from history by kgroups maintain; equal to read_to: the last record is missing
-- read_to: Next offset: the log before it has been read

WITH spans AS (
  -- Every audit records how far every partition has been read.
  SELECT offsets_partition, end_offset AS read_to
  FROM audit_partitions
  WHERE audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
),
records AS (
  SELECT offsets_partition, log_offset FROM offset_commits
  UNION ALL
  SELECT offsets_partition, log_offset FROM group_records
  UNION ALL
  SELECT offsets_partition, log_offset FROM transaction_markers
  UNION ALL
  -- A corrupt batch is a hole; records at which a load would fail, and those decoded later, are in a table above.
  SELECT offsets_partition, log_offset FROM quarantine
  WHERE reason NOT IN ('corrupt_batch', 'load_would_fail') AND resolved_by IS NULL
),
-- In lots of 65,536 log offsets: only the last lot with a hole is searched one by one, not the whole history.
lots AS (
  SELECT offsets_partition, log_offset // 65536 AS lot, count(*) AS records, min(log_offset) AS first_log_offset
  FROM records
  GROUP BY offsets_partition, log_offset // 65536
),
bordered AS (
  SELECT spans.offsets_partition, spans.read_to, lots.lot, lots.records, lots.first_log_offset,
    -- The log before the first record is not a hole: history begins there.
    greatest(lots.lot * 65536, min(lots.first_log_offset) OVER (PARTITION BY lots.offsets_partition)) AS lot_from,
    least((lots.lot + 1) * 65536, spans.read_to) AS lot_to,
    -- The start of the next existing lot.
    coalesce(
      lead(lots.lot) OVER (PARTITION BY lots.offsets_partition ORDER BY lots.lot) * 65536, spans.read_to
    ) AS next_from
  FROM spans
  LEFT JOIN lots ON lots.offsets_partition = spans.offsets_partition
),
-- Each partition, and the end of its last lot with a hole in it or right after it (null: none).
holes AS (
  SELECT offsets_partition, read_to, min(first_log_offset) AS first_log_offset, min(lot_from) AS lots_from,
    max(CASE WHEN records < lot_to - lot_from OR next_from > lot_to THEN lot END) AS lot,
    max(CASE WHEN records < lot_to - lot_from OR next_from > lot_to THEN lot_to END) AS lot_to,
    max(CASE WHEN records < lot_to - lot_from OR next_from > lot_to THEN next_from END) AS next_from
  FROM bordered
  GROUP BY offsets_partition, read_to
),
-- The records of that lot, counted from its end: if the n-th last one is n before the end, none is missing after it.
counted AS (
  SELECT holes.*, records.log_offset,
    row_number() OVER (PARTITION BY holes.offsets_partition ORDER BY records.log_offset DESC) AS from_end
  FROM holes
  LEFT JOIN records
    ON records.offsets_partition = holes.offsets_partition AND records.log_offset // 65536 = holes.lot
)
SELECT offsets_partition, first_log_offset,
  CASE
    WHEN first_log_offset IS NULL THEN read_to
    WHEN lot IS NULL THEN lots_from
    WHEN next_from > lot_to THEN next_from
    ELSE coalesce(min(CASE WHEN log_offset + from_end = lot_to THEN log_offset END), lot_to)
  END AS complete_from,
  read_to
FROM counted
GROUP BY offsets_partition, first_log_offset, read_to, lots_from, lot, lot_to, next_from
