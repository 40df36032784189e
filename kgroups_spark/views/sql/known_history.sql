-- One row: what moments the history can say something of (known_as_of)
--
-- begins: Oldest log time in history: what there was before is not known; null: the log has no times
-- incomplete_to: Newest log time when an audit last found offsets missing in what was new: the log up to here had been compacted before it was read, or is damaged; null: no audit has
-- ends: Newest log time when the last audit read the log, of a live cluster also when that was: what came after is not known; null: the log has no times

-- What an audit read of its own: without the records that it read once more, from where the audit before had ended.
WITH in_order AS (
  SELECT
    *,
    lag(audit_id) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS audit_before,
    lag(end_offset) OVER (PARTITION BY offsets_partition ORDER BY audit_id) AS end_before
  FROM audit_partitions
),
spans AS (
  SELECT
    read.audit_id,
    read.newest_log_timestamp,
    read.records - read.records_reread AS records,
    read.end_offset,
    -- Where the log was cut back, it was read again from there on.
    greatest(
      read.start_offset, least(coalesce(read.end_before, read.start_offset), min(replaced.from_offset))
    ) AS start_offset
  FROM in_order AS read
  LEFT JOIN replaced_ranges AS replaced
    ON replaced.offsets_partition = read.offsets_partition
    AND replaced.audit_id > read.audit_before
    AND replaced.audit_id <= read.audit_id
  GROUP BY
    read.audit_id, read.newest_log_timestamp, read.records, read.records_reread, read.end_offset, read.end_before,
    read.start_offset
),
last_ends AS (
  SELECT max(newest_log_timestamp) AS newest
  FROM audit_partitions
  WHERE audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
)
SELECT
  (
    SELECT min(log_timestamp)
    FROM (
      SELECT log_timestamp FROM offset_commits
      UNION ALL
      SELECT log_timestamp FROM group_records
      UNION ALL
      SELECT log_timestamp FROM transaction_markers
      UNION ALL
      SELECT log_timestamp FROM quarantine
    )
  ) AS begins,
  (SELECT max(newest_log_timestamp) FROM spans WHERE end_offset - start_offset > records) AS incomplete_to,
  -- Of a live cluster the log was known up to when it was read.
  (
    SELECT CASE WHEN last_ends.newest IS NOT NULL THEN greatest(last_ends.newest, last_live.as_of) END
    FROM last_ends
    CROSS JOIN (SELECT max(as_of) AS as_of FROM last_audit WHERE source = 'kafka') AS last_live
  ) AS ends
