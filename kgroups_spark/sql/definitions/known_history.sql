-- One row: the time range that history covers (known_as_of)
--
-- begins: Oldest log time in history that another one follows within 30 days (if there is none, the oldest): earlier states are unknown; null: the log has no times
-- reduced_to: Newest log time of records that kgroups maintain --keep has reduced to the last of each key: as of earlier moments functions fail for their partitions; null: it has reduced none
-- incomplete_to: Newest log time when an audit last found offsets missing or damaged among new records, or lost before them: records up to here may be missing; null: no audit has
-- ends: Newest log time at the last audit's read, or the time of that read for a live cluster: later states are unknown; null: the log has no times

-- It reads the whole ledger and all log times, so readers find the row once and make the view from it (sql/views.py).
-- The new range of an audit: without the records that it read again, from the end of the previous audit.
WITH in_order AS (
  SELECT *, lag(audit_id) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS audit_before,
    lag(end_offset) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS end_before
  FROM audit_partitions
),
spans AS (
  -- A log that was cut back was read again from the cut on. Offsets that were lost before an audit are missing.
  SELECT read.audit_id, read.offsets_partition, read.newest_log_timestamp, read.end_offset,
    read.records - read.records_reread AS records,
    least(coalesce(read.end_before, 0), min(replaced.from_offset)) AS start_offset
  FROM in_order AS read
  LEFT JOIN replaced_ranges AS replaced
    ON replaced.offsets_partition = read.offsets_partition AND replaced.topic IS NULL
    AND replaced.audit_id > read.audit_before AND replaced.audit_id <= read.audit_id
  GROUP BY read.audit_id, read.offsets_partition, read.newest_log_timestamp, read.end_offset, read.end_before,
    read.records, read.records_reread
),
damaged AS (
  SELECT DISTINCT audit_id, offsets_partition, true AS is_damaged FROM quarantine WHERE reason = 'corrupt_batch'
),
records AS (
  SELECT offsets_partition, log_offset, log_timestamp FROM offset_commits
  UNION ALL SELECT offsets_partition, log_offset, log_timestamp FROM group_records
  UNION ALL SELECT offsets_partition, log_offset, log_timestamp FROM transaction_markers
  UNION ALL SELECT offsets_partition, log_offset, log_timestamp FROM quarantine
),
kept AS (
  SELECT offsets_partition, max(log_offset) AS log_offset
  FROM checkpoints
  WHERE reason = 'keep' AND log IS NULL AND record_offset IS NULL
  GROUP BY offsets_partition
),
-- The oldest log time of each day, and whether another one follows it soon: one record stamped 1970 begins no history.
days AS (
  SELECT min(log_timestamp) AS oldest,
    max(log_timestamp) > min(log_timestamp) OR lead(min(log_timestamp)) OVER (ORDER BY min(log_timestamp))
      <= min(log_timestamp) + INTERVAL '30' DAY AS is_followed
  FROM records
  WHERE log_timestamp IS NOT NULL
  GROUP BY date_trunc('day', log_timestamp)
),
last_ends AS (
  SELECT max(newest_log_timestamp) AS newest
  FROM audit_partitions
  WHERE audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
)
SELECT
  (SELECT coalesce(min(CASE WHEN is_followed THEN oldest END), min(oldest)) FROM days) AS begins,
  -- By the rule of log_ends_as_of.
  (
    SELECT max(records.log_timestamp)
    FROM records
    JOIN kept ON kept.offsets_partition = records.offsets_partition AND records.log_offset < kept.log_offset
    WHERE (records.log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
  ) AS reduced_to,
  (
    SELECT max(newest_log_timestamp)
    FROM spans LEFT JOIN damaged USING (audit_id, offsets_partition)
    WHERE is_damaged OR end_offset - start_offset > records
  ) AS incomplete_to,
  -- A live cluster's log is known up to the time of the read.
  (
    SELECT CASE WHEN last_ends.newest IS NOT NULL THEN greatest(last_ends.newest, last_live.as_of) END
    FROM last_ends
    CROSS JOIN (SELECT max(as_of) AS as_of FROM last_audit WHERE source = 'kafka') AS last_live
  ) AS ends
