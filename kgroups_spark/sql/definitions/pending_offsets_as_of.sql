-- Offsets inside transactions that were open as of a moment (column known shows whether history is complete for it; for an empty answer, ask known_as_of), by the rules of Kafka 3.8 and newer, regardless of the audits' release
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of pending_offsets
-- commit_timestamp: Time of the commit; null: none, or outside the years 1 to 9999
-- expire_timestamp: When it will expire (clients before 2.1); null: not given, or outside the years 1 to 9999
-- audit_id: The audit that read the record (table audits)
-- known of groups_as_of

WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT commits.*, ends.end_offset,
    -- A tombstone removes what any producer has pending for the key.
    max(CASE WHEN commits.committed_offset IS NULL THEN commits.log_offset END) OVER (
      PARTITION BY commits.offsets_partition, commits.group_id, commits.topic, commits.partition
    ) AS removed_log_offset,
    row_number() OVER (
      PARTITION BY
        commits.offsets_partition, commits.group_id, commits.topic, commits.partition, commits.producer_id
      ORDER BY commits.log_offset DESC
    ) AS number
  FROM main.effective_commits AS commits
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = commits.offsets_partition
  WHERE (ends.end_offset IS NULL OR commits.log_offset < ends.end_offset)
    AND (
      commits.committed_offset IS NULL
      -- Its marker was not written by then.
      OR (commits.producer_id IS NOT NULL AND (commits.marker_offset IS NULL OR commits.marker_offset >= ends.end_offset))
    )
),
-- Not the view `transactions`, so that its parts can be filtered.
begun AS (
  SELECT offsets_partition, producer_id, transaction_start_offset, log_offset AS marker_offset,
    CAST(NULL AS TIMESTAMPTZ) AS open_since
  FROM main.transaction_markers
  WHERE transaction_start_offset IS NOT NULL
  UNION ALL
  SELECT offsets_partition, producer_id, transaction_start_offset, NULL, open_since FROM main.open_transactions
)
SELECT pending.*, begun.transaction_start_offset,
  coalesce(begun.open_since, records.log_timestamp) AS open_since,
  names.transactional_id,
  (SELECT kgroups_known FROM kgroups_known) AS known
FROM numbered AS pending
LEFT JOIN begun
  ON begun.offsets_partition = pending.offsets_partition AND begun.producer_id = pending.producer_id
  AND (pending.end_offset IS NULL OR begun.transaction_start_offset < pending.end_offset)
  AND (begun.marker_offset IS NULL OR begun.marker_offset >= pending.end_offset)
LEFT JOIN _transactional_records AS records
  ON records.offsets_partition = pending.offsets_partition AND records.log_offset = begun.transaction_start_offset
LEFT JOIN main.transactional_producers AS names ON names.producer_id = pending.producer_id
WHERE pending.number = 1 AND pending.committed_offset IS NOT NULL
  AND pending.log_offset > coalesce(pending.removed_log_offset, -1)
  AND (pending.corrected_log_offset IS NULL OR pending.corrected_log_offset > pending.end_offset)
