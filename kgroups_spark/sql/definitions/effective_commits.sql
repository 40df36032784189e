-- Records of type 0 and 1, with the time and log offset at which each took effect; the basis of offset_history and of offsets as of a moment
--
-- columns of offset_commits
-- audit_id: The audit that read the record (table audits)
-- outcome: committed, aborted or pending: its transaction has ended, or not; null: no transaction, or a partition that was read again no longer held it. committed does not mean that it became the committed offset
-- marker_offset: Offset of the marker that ended it; null: no transaction, or it is open
-- effective_log_offset: Log offset at which it took effect: its own for a tombstone or a value without a producer, the COMMIT marker's for a value of a transaction; null: never, or not yet
-- effective_timestamp: Log time of the record at effective_log_offset; null: never in effect, or its time does not count (last_audit.believed_until)
-- corrected_log_offset: End of the log read so far when a partition that was read again no longer held it; null: it was not read again, or held it

WITH markers AS NOT MATERIALIZED (
  SELECT offsets_partition, producer_id, log_offset, log_timestamp, outcome, transaction_start_offset,
    -- The producer's previous marker; -1: none.
    coalesce(lag(log_offset) OVER (PARTITION BY offsets_partition, producer_id ORDER BY log_offset), -1)
      AS previous_log_offset
  FROM transaction_markers
  WHERE outcome IS NOT NULL
),
-- In three parts, so that most records are spared the joins.
settled AS (
  SELECT commits.* EXCLUDE (outcome, marker_offset), outcome, marker_offset, CAST(NULL AS TIMESTAMPTZ) AS marker_timestamp
  FROM offset_commits AS commits
  WHERE producer_id IS NULL
  UNION ALL
  -- Their marker was read together with them.
  SELECT commits.* EXCLUDE (outcome, marker_offset), commits.outcome, commits.marker_offset, markers.log_timestamp
  FROM offset_commits AS commits
  LEFT JOIN markers
    ON markers.offsets_partition = commits.offsets_partition AND markers.log_offset = commits.marker_offset
  WHERE commits.producer_id IS NOT NULL AND commits.outcome IS NOT NULL
  UNION ALL
  -- Few: the marker was read in another range, maybe by a later audit, or is still missing. A record with a producer
  -- but without the transactional bit is pending, too, until that producer's next marker (Java).
  SELECT
    commits.* EXCLUDE (outcome, marker_offset),
    coalesce(markers.outcome, 'pending'),
    markers.log_offset, markers.log_timestamp
  FROM offset_commits AS commits
  LEFT JOIN markers
    ON markers.offsets_partition = commits.offsets_partition AND markers.producer_id = commits.producer_id
    AND markers.log_offset > commits.log_offset
    AND CASE
      WHEN commits.is_transactional THEN markers.transaction_start_offset <= commits.log_offset
      ELSE markers.previous_log_offset < commits.log_offset
    END
  WHERE commits.producer_id IS NOT NULL AND commits.outcome IS NULL
),
-- Entries that a partition no longer held when it was read again: a group's committed offsets, a producer's
-- pending ones. `held` are the records of those that it still held. Most lakes have no such rows.
corrections AS (
  SELECT offsets_partition, log_offset, group_id, reported.producer_id,
    coalesce(
      CASE entry_type
        WHEN 'group' THEN list_transform(reported.offsets, lambda held: CAST(held[3] AS BIGINT))
        ELSE list_transform(reported.pending, lambda held: CAST(held[4] AS BIGINT))
      END,
      []
    ) AS held
  FROM (
    SELECT *,
      from_json(payload, '{"producer_id": "BIGINT", "offsets": [["VARCHAR"]], "pending": [["VARCHAR"]]}') AS reported
    FROM checkpoints
    WHERE reason = 'reread' AND entry_type IN ('group', 'producer')
  )
),
corrected_producers AS (
  SELECT offsets_partition, producer_id, list({'log_offset': log_offset, 'held': held}) AS corrections
  FROM corrections
  WHERE group_id IS NULL
  GROUP BY offsets_partition, producer_id
),
corrected_groups AS (
  SELECT offsets_partition, group_id, list({'log_offset': log_offset, 'held': held}) AS corrections
  FROM corrections
  WHERE group_id IS NOT NULL
  GROUP BY offsets_partition, group_id
),
-- Values that were pending until then.
dropped AS (
  SELECT settled.*,
    list_min(list_transform(
      list_filter(
        corrected_producers.corrections,
        lambda correction: settled.committed_offset IS NOT NULL
          AND correction.log_offset > settled.log_offset
          AND (correction.log_offset <= settled.marker_offset OR settled.marker_offset IS NULL)
          AND NOT list_contains(correction.held, settled.log_offset)
      ),
      lambda correction: correction.log_offset
    )) AS dropped_log_offset
  FROM settled
  LEFT JOIN corrected_producers USING (offsets_partition, producer_id)
),
effective AS (
  SELECT
    * EXCLUDE (outcome, marker_offset),
    -- A later marker no longer applies to it.
    CASE WHEN dropped_log_offset IS NULL THEN outcome END AS outcome,
    CASE WHEN dropped_log_offset IS NULL THEN marker_offset END AS marker_offset,
    CASE
      WHEN committed_offset IS NULL OR producer_id IS NULL THEN log_offset
      WHEN outcome = 'committed' AND dropped_log_offset IS NULL THEN marker_offset
    END AS effective_log_offset,
    CASE
      WHEN committed_offset IS NULL OR producer_id IS NULL THEN log_timestamp
      WHEN outcome = 'committed' AND dropped_log_offset IS NULL THEN marker_timestamp
    END AS written_timestamp
  FROM dropped
)
SELECT effective.*,
  CASE
    WHEN effective.written_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL
    ELSE effective.written_timestamp
  END AS effective_timestamp,
  coalesce(
    effective.dropped_log_offset,
    list_min(list_transform(
      list_filter(
        corrected_groups.corrections,
        lambda correction: effective.committed_offset IS NOT NULL
          AND correction.log_offset > effective.effective_log_offset
          AND NOT list_contains(correction.held, effective.log_offset)
      ),
      lambda correction: correction.log_offset
    ))
  ) AS corrected_log_offset
FROM effective
LEFT JOIN corrected_groups USING (offsets_partition, group_id)
