-- The outcomes of the previous audit's expiry decisions: every offset that it expected to expire, and the others that are gone. Without partitions whose history since then kgroups maintain --keep has reduced
--
-- audit_id: The audit that decided; outcomes are as of the last finished one
-- offsets_partition, group_id, topic, partition of committed_offsets
-- committed_offset: The committed offset then
-- decision: expire or keep, as decided then
-- reason: Why, as in offset_expiry
-- expires_at: When it was due to expire, as decided then; null: never, if its group stayed as it was
-- outcome: removed: gone, and not before expires_at; kept_alive: committed again; still_there: neither; not_foreseen: gone before expires_at or without one, deleted by hand or by our error
-- outcome_log_offset: The record of offset_commits that was the first to change it since (a transaction's when it was committed); null: still there, or gone without a trace (compacted away)
-- outcome_timestamp: Log time of the record at outcome_log_offset; null: no such record, or it has no time
-- removed_after_ms: removed: how long after expires_at its tombstone was written; null: another outcome, or its time is not known

WITH read_then AS (
  SELECT read.offsets_partition,
    -- Ranges that were replaced since do not count as read.
    least(read.end_offset, coalesce(min(replaced.from_offset), read.end_offset)) AS read_to
  FROM audit_partitions AS read
  LEFT JOIN replaced_ranges AS replaced
    ON replaced.offsets_partition = read.offsets_partition AND replaced.topic IS NULL
    AND replaced.audit_id > read.audit_id
  LEFT JOIN _reduced AS reduced ON reduced.log = '__consumer_offsets' AND reduced.partition = read.offsets_partition
  -- In reduced history, the first record since then may be gone.
  WHERE coalesce(reduced_to <= read.end_offset, TRUE) AND read.audit_id = (SELECT max(decided_by) FROM previous_offset_expiry)
  GROUP BY read.offsets_partition, read.end_offset
),
decided AS (
  SELECT previous.*, read_then.read_to, now.log_offset AS log_offset_now
  FROM previous_offset_expiry AS previous
  JOIN read_then USING (offsets_partition)
  LEFT JOIN committed_offsets AS now USING (offsets_partition, group_id, topic, partition)
),
-- COMMIT markers since; their transactions may have begun before.
committed AS (
  SELECT offsets_partition, producer_id, transaction_start_offset, log_offset
  FROM transaction_markers
  WHERE audit_id > (SELECT max(decided_by) FROM previous_offset_expiry) AND outcome = 'committed'
),
-- A tombstone, whatever its transaction's outcome, and a value without a producer take effect at their own log offset,
-- a value of a transaction at its COMMIT marker, which may have been read in another range than the value (outcome is
-- null).
events AS (
  SELECT commits.offsets_partition, commits.group_id, commits.topic, commits.partition, commits.log_offset,
    commits.log_timestamp,
    commits.committed_offset IS NULL AS is_tombstone,
    CASE
      WHEN commits.committed_offset IS NULL OR commits.producer_id IS NULL THEN commits.log_offset
      WHEN commits.outcome = 'committed' THEN commits.marker_offset
      ELSE committed.log_offset
    END AS effective_log_offset
  FROM offset_commits AS commits
  LEFT JOIN committed ON committed.offsets_partition = commits.offsets_partition
    -- Null for all but a few rows, which then are compared with no marker.
    AND committed.producer_id = CASE
      WHEN commits.is_transactional AND commits.outcome IS NULL AND commits.committed_offset IS NOT NULL
        THEN commits.producer_id
    END
    AND commits.log_offset >= committed.transaction_start_offset AND commits.log_offset < committed.log_offset
  WHERE commits.audit_id > (SELECT max(decided_by) FROM previous_offset_expiry)
  UNION ALL
  -- Records that were read before can have taken effect since only if their transaction was open then.
  SELECT commits.offsets_partition, commits.group_id, commits.topic, commits.partition, commits.log_offset,
    commits.log_timestamp, false AS is_tombstone, committed.log_offset AS effective_log_offset
  FROM offset_commits AS commits
  JOIN (
    SELECT committed.*
    FROM committed
    JOIN read_then USING (offsets_partition)
    WHERE committed.transaction_start_offset < read_then.read_to
  ) AS committed USING (offsets_partition, producer_id)
  WHERE commits.log_offset >= committed.transaction_start_offset AND commits.log_offset < committed.log_offset
    AND commits.audit_id <= (SELECT max(decided_by) FROM previous_offset_expiry)
    AND commits.is_transactional AND commits.outcome IS NULL AND commits.committed_offset IS NOT NULL
),
seen AS (
  SELECT decided.*, events.log_offset AS outcome_log_offset,
    events.log_timestamp AS outcome_timestamp,
    row_number() OVER (
      PARTITION BY decided.offsets_partition, decided.group_id, decided.topic, decided.partition
      -- A transaction's last value for a slot counts.
      ORDER BY events.effective_log_offset, events.log_offset DESC
    ) AS number,
    CASE
      WHEN events.is_tombstone THEN 'tombstone'
      WHEN NOT events.is_tombstone THEN 'value'
      WHEN decided.log_offset_now IS NULL THEN 'gone'
      ELSE 'nothing'
    END AS shown
  FROM decided
  LEFT JOIN events
    ON events.offsets_partition = decided.offsets_partition AND events.group_id = decided.group_id
    AND events.topic = decided.topic AND events.partition = decided.partition
    AND events.effective_log_offset >= decided.read_to
    -- A record older than the committed one changes nothing when its transaction ends.
    AND events.log_offset > decided.log_offset
    -- Nor has anything changed if the same record is still the committed one.
    AND (decided.log_offset_now IS NULL OR decided.log_offset_now <> decided.log_offset)
),
judged AS (
  SELECT seen.*,
    CASE
      WHEN shown = 'value' THEN 'kept_alive'
      WHEN shown = 'nothing' THEN 'still_there'
      WHEN decision = 'expire' AND coalesce(outcome_timestamp >= expires_at, true) THEN 'removed'
      WHEN decision = 'keep' AND expires_at <= coalesce(outcome_timestamp, last_audit.as_of) THEN 'removed'
      ELSE 'not_foreseen'
    END AS outcome
  FROM seen
  CROSS JOIN last_audit
  WHERE number = 1 AND (decision = 'expire' OR shown IN ('tombstone', 'gone'))
)
SELECT
  * EXCLUDE (audit_id),
  decided_by AS audit_id,
  CASE WHEN outcome = 'removed' THEN epoch_ms(outcome_timestamp) - epoch_ms(expires_at) END AS removed_after_ms
FROM judged
