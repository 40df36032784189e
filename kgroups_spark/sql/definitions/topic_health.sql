-- Health of each partition of __consumer_offsets: its live records, what holds back the cleaner, and its commit rate
--
-- offsets_partition of log_totals
-- log_start_offset: First offset in the log when it was last read; null: unknown
-- end_offset of log_totals
-- span: Offsets from the first in the log (if unknown: the first that was read) to the end
-- records: Records read since it was last read from its start, inclusive: the log has at most this number, and live_records at least. A coordinator that loads the partition reads them; kgroups audit --full counts them
-- bytes: Bytes of these records in the log, including batch overhead
-- live_records: Live records: committed offsets, values in open transactions, and the newest value of each key of groups and members
-- garbage_records: All others: those that the cleaner can remove, tombstones and markers after delete.retention.ms
-- tombstones: Tombstones of offsets, groups and members among these, without those that were read again; fewer after kgroups maintain --keep, which removes those of groups and members
-- open_transactions: Open transactions: the cleaner cannot pass the oldest one
-- oldest_open_transaction_offset: First record of the oldest one; null: none is open
-- oldest_open_since: Log time of the oldest open transaction's first record; null: none is open, or no time
-- oldest_open_producer_id: Its producer; null: none is open
-- commits_per_hour: Offset commits for each hour of log time, transactional ones included, over the partition's last 24 hours (or fewer); null: no commit has a time

WITH spans AS (
  SELECT read.offsets_partition, read.log_start_offset, totals.start_offset AS first_offset, read.end_offset,
    totals.read_from_start_by, totals.records, totals.bytes
  FROM audit_partitions AS read
  JOIN log_totals AS totals ON totals.offsets_partition = read.offsets_partition
  WHERE read.audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
),
-- The newest record of each key of groups and members, types 2 to 23.
group_keys AS (
  SELECT offsets_partition,
    max(log_offset) = max(CASE WHEN value_version IS NOT NULL THEN log_offset END) AS is_live
  FROM group_records
  GROUP BY offsets_partition, group_id, record_type, member_id, regular_expression
),
live AS (
  SELECT offsets_partition, count(*) AS records
  FROM (
    SELECT offsets_partition FROM group_keys WHERE is_live
    UNION ALL
    SELECT offsets_partition FROM committed_offsets
    UNION ALL
    SELECT offsets_partition FROM pending_offsets
  )
  GROUP BY offsets_partition
),
tombstones AS (
  SELECT reported.offsets_partition, CAST(sum(reported.tombstones) AS BIGINT) AS tombstones
  FROM spans
  JOIN (
    SELECT offsets_partition, audit_id, tombstones FROM group_traffic
    UNION ALL
    SELECT offsets_partition, audit_id, 1 FROM group_records WHERE value_version IS NULL
  ) AS reported
    ON reported.offsets_partition = spans.offsets_partition AND reported.audit_id >= spans.read_from_start_by
  GROUP BY reported.offsets_partition
),
open_now AS (
  SELECT offsets_partition, count(*) AS transactions,
    min(struct_pack(
      transaction_start_offset := transaction_start_offset, open_since := open_since, producer_id := producer_id
    )) AS oldest
  FROM open_transactions
  GROUP BY offsets_partition
),
hours AS (
  SELECT offsets_partition, hour, commits,
    min(hour) OVER (PARTITION BY offsets_partition) AS first_hour,
    max(hour) OVER (PARTITION BY offsets_partition) AS last_hour
  FROM group_traffic
  WHERE commits > 0 AND (hour > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
),
rates AS (
  SELECT offsets_partition,
    sum(commits) / least(24, 1 + (epoch(max(last_hour)) - epoch(min(first_hour))) / 3600)
      AS commits_per_hour
  FROM hours
  WHERE hour > last_hour - INTERVAL 24 HOURS
  GROUP BY offsets_partition
)
SELECT spans.*,
  spans.end_offset - coalesce(spans.log_start_offset, spans.first_offset) AS span,
  coalesce(live.records, 0) AS live_records,
  greatest(spans.records - coalesce(live.records, 0), 0) AS garbage_records,
  coalesce(tombstones.tombstones, 0) AS tombstones,
  coalesce(open_now.transactions, 0) AS open_transactions,
  open_now.oldest.transaction_start_offset AS oldest_open_transaction_offset,
  open_now.oldest.open_since AS oldest_open_since, open_now.oldest.producer_id AS oldest_open_producer_id,
  rates.commits_per_hour
FROM spans
LEFT JOIN live USING (offsets_partition)
LEFT JOIN tombstones USING (offsets_partition)
LEFT JOIN open_now USING (offsets_partition)
LEFT JOIN rates USING (offsets_partition)
