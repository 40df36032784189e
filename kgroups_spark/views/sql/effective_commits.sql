-- Records of type 0 and 1, when and where each came into effect: what offset_history and the offsets as of a moment are made of
--
-- columns of offset_commits
-- audit_id: The audit that read the record (table audits)
-- outcome: committed, aborted or pending: the marker that ended its transaction has come, or not; null: no transaction, or a partition that was read again no longer held it. It does not say that this was the committed offset
-- marker_offset: Offset of that marker; null: no transaction, or none has come
-- effective_log_offset: Log offset at which it came into effect: a tombstone and a value without a producer at its own, a value of a transaction at the COMMIT marker; null: never, or not yet
-- effective_timestamp: Log time of the record at effective_log_offset; null: never in effect, or no time that is believed (last_audit.believed_until)
-- corrected_log_offset: Where the log had been read to when a partition that was read again no longer held it; null: nothing of the kind

WITH markers AS NOT MATERIALIZED (
  SELECT
    offsets_partition,
    producer_id,
    log_offset,
    log_timestamp,
    outcome,
    transaction_start_offset,
    -- The producer's marker before; -1: none.
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
  -- Few: the marker was read in another range, maybe in a later night, or has not come. A record with a producer but
  -- without the transactional bit is pending, too, until that producer's next marker (Java).
  SELECT
    commits.* EXCLUDE (outcome, marker_offset),
    coalesce(markers.outcome, 'pending'),
    markers.log_offset,
    markers.log_timestamp
  FROM offset_commits AS commits
  LEFT JOIN markers
    ON markers.offsets_partition = commits.offsets_partition
    AND markers.producer_id = commits.producer_id
    AND markers.log_offset > commits.log_offset
    AND CASE
      WHEN commits.is_transactional THEN markers.transaction_start_offset <= commits.log_offset
      ELSE markers.previous_log_offset < commits.log_offset
    END
  WHERE commits.producer_id IS NOT NULL AND commits.outcome IS NULL
),
-- What a partition that was read again did not hold any more: of a group its committed offsets, of a producer its
-- pending ones. `held` are the records of those that it did hold. Most lakes have no such rows.
corrections AS (
  SELECT
    offsets_partition,
    log_offset,
    group_id,
    reported.producer_id,
    coalesce(
      CASE entry_type
        WHEN 'group' THEN list_transform(reported.offsets, lambda held: CAST(held[3] AS BIGINT))
        ELSE list_transform(reported.pending, lambda held: CAST(held[4] AS BIGINT))
      END,
      []
    ) AS held
  FROM (
    SELECT
      *,
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
  SELECT
    settled.*,
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
  LEFT JOIN corrected_producers
    ON corrected_producers.offsets_partition = settled.offsets_partition
    AND corrected_producers.producer_id = settled.producer_id
),
effective AS (
  SELECT
    * EXCLUDE (outcome, marker_offset),
    -- A marker that came later says nothing of it any more.
    CASE WHEN dropped_log_offset IS NULL THEN outcome END AS outcome,
    CASE WHEN dropped_log_offset IS NULL THEN marker_offset END AS marker_offset,
    CASE
      WHEN committed_offset IS NULL OR producer_id IS NULL THEN log_offset
      WHEN outcome = 'committed' AND dropped_log_offset IS NULL THEN marker_offset
    END AS effective_log_offset,
    CASE
      WHEN committed_offset IS NULL OR producer_id IS NULL THEN log_timestamp
      WHEN outcome = 'committed' AND dropped_log_offset IS NULL THEN marker_timestamp
    END AS effective_timestamp
  FROM dropped
)
SELECT
  effective.audit_id,
  effective.offsets_partition,
  effective.log_offset,
  effective.log_timestamp,
  effective.offset_delta,
  effective.group_id,
  effective.topic,
  effective.partition,
  effective.committed_offset,
  effective.leader_epoch,
  effective.metadata,
  effective.commit_timestamp,
  effective.expire_timestamp,
  effective.topic_id,
  effective.record_type,
  effective.value_version,
  effective.producer_id,
  effective.producer_epoch,
  effective.is_transactional,
  effective.outcome,
  effective.marker_offset,
  effective.raw_key,
  effective.raw_value,
  effective.effective_log_offset,
  CASE
    WHEN effective.effective_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL
    ELSE effective.effective_timestamp
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
LEFT JOIN corrected_groups
  ON corrected_groups.offsets_partition = effective.offsets_partition
  AND corrected_groups.group_id = effective.group_id
