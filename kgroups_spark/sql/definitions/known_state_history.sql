-- A row for each of __share_group_state and __transaction_state that was read: the time range that its history covers (state_known_as_of)
--
-- log: __share_group_state or __transaction_state
-- begins: Oldest log time in its history that another one follows within 30 days (if there is none, the oldest): earlier states are unknown; null: it has no times
-- reduced_to: Newest log time of records that kgroups maintain --keep has reduced: as of earlier moments functions fail for their partitions; null: it has reduced none
-- incomplete_to: Newest log time when an audit last found offsets missing or damaged among new records, or lost before them: records up to here may be missing; null: no audit has
-- ends: Newest log time at the last audit's read, or the time of that read for a live cluster: later states are unknown; null: it has no times

WITH entries AS (
  SELECT audit_id, read.topic AS log, read.offsets_partition AS state_partition,
    read.records - read.records_reread AS records,
    read.end_offset, read.newest_log_timestamp
  FROM (SELECT audit_id, unnest(partitions) AS read FROM audits WHERE status = 'finished')
  WHERE read.topic IS NOT NULL
),
spans AS (
  SELECT *,
    end_offset - lag(end_offset, 1, 0) OVER (PARTITION BY log, state_partition ORDER BY audit_id) AS offsets
  FROM entries
),
-- A corrupt batch counts as the records that it had.
damage AS (
  SELECT DISTINCT audit_id, log, state_partition FROM state_quarantine WHERE reason = 'corrupt_batch'
),
audited AS (
  SELECT spans.log,
    max(
      CASE WHEN damage.audit_id IS NOT NULL OR spans.offsets > spans.records THEN spans.newest_log_timestamp END
    ) AS incomplete_to,
    max(
      CASE
        WHEN spans.audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished') THEN spans.newest_log_timestamp
      END
    ) AS newest
  FROM spans
  LEFT JOIN damage
    ON damage.audit_id = spans.audit_id AND damage.log = spans.log AND damage.state_partition = spans.state_partition
  GROUP BY spans.log
),
records AS (
  SELECT '__share_group_state' AS log, state_partition, log_offset, log_timestamp FROM share_group_state_records
  UNION ALL
  SELECT '__transaction_state', state_partition, log_offset, log_timestamp FROM transaction_state_records
  UNION ALL
  SELECT log, state_partition, log_offset, log_timestamp FROM state_quarantine
),
-- As in known_history.
days AS (
  SELECT log, min(log_timestamp) AS oldest,
    max(log_timestamp) > min(log_timestamp)
    OR lead(min(log_timestamp)) OVER (PARTITION BY log ORDER BY min(log_timestamp))
    <= min(log_timestamp) + INTERVAL '30' DAY AS is_followed
  FROM records
  WHERE log_timestamp IS NOT NULL
  GROUP BY log, date_trunc('day', log_timestamp)
),
oldest AS (
  SELECT log, coalesce(min(CASE WHEN is_followed THEN oldest END), min(oldest)) AS begins
  FROM days
  GROUP BY log
),
reduced AS (
  SELECT records.log, max(records.log_timestamp) AS reduced_to
  FROM records
  JOIN (
    SELECT log, offsets_partition, max(log_offset) AS log_offset
    FROM checkpoints
    WHERE reason = 'keep' AND log IS NOT NULL
    GROUP BY log, offsets_partition
  ) AS kept
    ON kept.log = records.log AND kept.offsets_partition = records.state_partition
    AND records.log_offset < kept.log_offset
  WHERE (records.log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE
  GROUP BY records.log
)
SELECT audited.log, oldest.begins, reduced.reduced_to, audited.incomplete_to,
  -- A live cluster's log is known up to the time of the read.
  CASE WHEN audited.newest IS NOT NULL THEN greatest(audited.newest, last_live.as_of) END AS ends
FROM audited
LEFT JOIN oldest ON oldest.log = audited.log
LEFT JOIN reduced ON reduced.log = audited.log
CROSS JOIN (SELECT max(as_of) AS as_of FROM last_audit WHERE source = 'kafka') AS last_live
