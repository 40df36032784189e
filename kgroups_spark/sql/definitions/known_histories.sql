-- A row for each log that was read: the time range that its history covers (known_as_of, state_known_as_of)
--
-- log: __consumer_offsets, __share_group_state or __transaction_state
-- begins: Oldest log time in its history that another one follows within 30 days (if there is none, the oldest): earlier states are unknown; null: it has no times
-- reduced_to: Newest log time of records that kgroups maintain --keep has reduced: as of earlier moments functions fail for their partitions; null: it has reduced none
-- incomplete_to: Newest log time when an audit last found offsets missing or damaged among new records, or lost before them: records up to here may be missing; null: no audit has
-- ends: Newest log time at the last audit's read, or the time of that read for a live cluster: later states are unknown; null: it has no times

-- The new range of an audit: without the records that it read again, from the end of the previous audit.
WITH reads AS (
  SELECT audit_id, coalesce(read.topic, '__consumer_offsets') AS log, read.offsets_partition AS partition,
    read.newest_log_timestamp, read.end_offset, read.records - read.records_reread AS records
  FROM (SELECT audit_id, unnest(partitions) AS read FROM audits WHERE status = 'finished')
),
in_order AS (
  SELECT *, lag(audit_id) OVER (PARTITION BY log, partition ORDER BY audit_id) AS audit_before,
    lag(end_offset, 1, 0) OVER (PARTITION BY log, partition ORDER BY audit_id) AS end_before
  FROM reads
),
spans AS (
  -- A log that was cut back was read again from the cut on. Offsets that were lost before an audit are missing.
  SELECT read.audit_id, read.log, read.partition, read.newest_log_timestamp, read.end_offset, read.records,
    least(read.end_before, min(replaced.from_offset)) AS start_offset
  FROM in_order AS read
  LEFT JOIN replaced_ranges AS replaced
    ON replaced.offsets_partition = read.partition AND coalesce(replaced.topic, '__consumer_offsets') = read.log
    AND replaced.audit_id > read.audit_before AND replaced.audit_id <= read.audit_id
  GROUP BY read.audit_id, read.log, read.partition, read.newest_log_timestamp, read.end_offset, read.records,
    read.end_before
),
-- A corrupt batch counts as the records that it had.
damaged AS (
  SELECT DISTINCT audit_id, '__consumer_offsets' AS log, offsets_partition AS partition, true AS is_damaged
  FROM quarantine WHERE reason = 'corrupt_batch'
  UNION ALL
  SELECT DISTINCT audit_id, log, state_partition, true FROM state_quarantine WHERE reason = 'corrupt_batch'
),
audited AS (
  SELECT log,
    max(CASE WHEN is_damaged OR end_offset - start_offset > records THEN newest_log_timestamp END) AS incomplete_to,
    max(CASE
      WHEN audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished') THEN newest_log_timestamp
    END) AS newest
  FROM spans LEFT JOIN damaged USING (audit_id, log, partition)
  GROUP BY log
),
-- The oldest log time of each day, and whether another one follows it soon: one record stamped 1970 begins no history.
days AS (
  SELECT log, min(log_timestamp) AS oldest,
    max(log_timestamp) > min(log_timestamp)
    OR lead(min(log_timestamp)) OVER (PARTITION BY log ORDER BY min(log_timestamp))
      <= min(log_timestamp) + INTERVAL '30' DAY AS is_followed
  FROM log_times
  WHERE log_timestamp IS NOT NULL
  GROUP BY log, date_trunc('day', log_timestamp)
),
oldest AS (
  SELECT log, coalesce(min(CASE WHEN is_followed THEN oldest END), min(oldest)) AS begins FROM days GROUP BY log
),
-- By the rule of ends_as_of.
reduced AS (
  SELECT log, max(log_timestamp) AS reduced_to
  FROM log_times AS records
  JOIN _reduced AS kept USING (log, partition)
  WHERE records.log_offset < kept.reduced_to AND (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
  GROUP BY log
)
SELECT log, oldest.begins, reduced.reduced_to, audited.incomplete_to,
  -- A live cluster's log is known up to the time of the read.
  CASE WHEN audited.newest IS NOT NULL THEN greatest(audited.newest, last_live.as_of) END AS ends
FROM audited
FULL JOIN oldest USING (log)
LEFT JOIN reduced USING (log)
CROSS JOIN (SELECT max(as_of) AS as_of FROM last_audit WHERE source = 'kafka') AS last_live
