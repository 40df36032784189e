-- Lag of every group and topic partition at each audit of a live cluster: the offset committed by the end of the log that the audit had read, and the ends of the topic's log, which it asked for afterwards. Filter by group_id
--
-- audit_id of topic_offsets
-- seen_at: When the audit asked for the topic's partition
-- group_id of committed_offsets
-- topic of committed_offsets
-- partition of committed_offsets
-- is_share: It is a share partition, and committed_offset its start offset
-- committed_offset: Offset that the group had committed
-- log_start_offset: First offset that the topic's partition still had; null: unknown
-- log_end_offset: Its high watermark; null: unknown
-- status of topic_offsets
-- lag BIGINT: As in the views lag and share_lag
-- records_lost BIGINT: Records of that lag that the topic no longer had; 0: none; null: unknown
-- estimated_lag_ms BIGINT: Time since the first record of the lag was written, if the log grew evenly between the audits before and after it; 0: no lag; null: unknown, or written before the first audit that saw the log

WITH audit_ends AS (
  SELECT audit_id, coalesce(read.topic, '__consumer_offsets') AS log, read.offsets_partition, read.end_offset
  FROM (SELECT audit_id, unnest(partitions) AS read FROM audits WHERE status = 'finished')
  WHERE audit_id IN (SELECT audit_id FROM topic_offsets)
),
-- An earlier record that takes effect later, at its marker, changes nothing.
in_effect AS (
  SELECT *,
    log_offset = max(log_offset) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY effective_log_offset, log_offset DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS took_effect
  FROM effective_commits
  WHERE effective_log_offset IS NOT NULL
),
commits AS (
  SELECT *,
    lead(effective_log_offset) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY effective_log_offset, log_offset
    ) AS next_log_offset
  FROM in_effect
  WHERE took_effect
),
gone AS (
  SELECT state_partition, name AS group_id, topic_id, partition, max(gone_before) AS gone_before
  FROM _gone
  WHERE log = '__share_group_state'
  GROUP BY state_partition, name, topic_id, partition
),
share_records AS (
  SELECT *,
    from_json(value, '{"startOffset": "BIGINT", "deliveryCompleteCount": "BIGINT"}') AS v,
    lead(log_offset) OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset)
      AS next_log_offset
  FROM share_group_state_records
),
share_states AS (
  SELECT *,
    -- An update does not change a start offset by -1.
    last_value(
      CASE WHEN record_type = 0 OR v."startOffset" <> -1 THEN {'at': nullif(v."startOffset", -1)} END IGNORE NULLS
    ) OVER (
      PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS start
  FROM share_records
),
states AS (
  SELECT ends.audit_id, commits.group_id, commits.topic, NULL AS topic_id, commits.partition, false AS is_share,
    commits.committed_offset,
    CASE WHEN commits.committed_offset >= 0 THEN 0 END AS done
  FROM commits
  JOIN audit_ends AS ends USING (offsets_partition)
  WHERE ends.log = '__consumer_offsets' AND ends.end_offset > commits.effective_log_offset
    AND (commits.next_log_offset IS NULL OR ends.end_offset <= commits.next_log_offset)
    AND (commits.corrected_log_offset IS NULL OR commits.corrected_log_offset > ends.end_offset)
    AND commits.committed_offset IS NOT NULL
  UNION ALL
  SELECT ends.audit_id, shared.group_id, topics.topic, shared.topic_id, shared.partition, true, shared.start.at,
    nullif(shared.v."deliveryCompleteCount", -1)
  FROM share_states AS shared
  JOIN topics ON topics.topic_id = shared.topic_id
  JOIN audit_ends AS ends
    ON ends.log = '__share_group_state'
    AND ends.offsets_partition = shared.state_partition AND ends.end_offset > shared.log_offset
    AND (shared.next_log_offset IS NULL OR ends.end_offset <= shared.next_log_offset)
  LEFT JOIN gone
    ON gone.state_partition = shared.state_partition
    AND (gone.group_id IS NULL OR (
      gone.group_id = shared.group_id AND gone.topic_id = shared.topic_id AND gone.partition = shared.partition
    ))
    AND gone.gone_before > shared.log_offset AND gone.gone_before <= ends.end_offset
  WHERE shared.value IS NOT NULL AND shared.start.at IS NOT NULL AND gone.gone_before IS NULL
),
-- The growth of each log between two audits.
seen AS (
  SELECT *, lead(highest) OVER of_log AS next_highest, lead(seen_at) OVER of_log AS next_seen_at
  FROM (
    SELECT audit_id, topic, topic_id, partition, seen_at,
      max(log_end_offset) OVER (
        PARTITION BY topic, topic_id, partition ORDER BY audit_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS highest
    FROM topic_offsets
    WHERE log_end_offset IS NOT NULL
  )
  WINDOW of_log AS (PARTITION BY topic, topic_id, partition ORDER BY audit_id)
)
SELECT asked.audit_id, asked.seen_at, states.group_id, asked.topic, asked.partition, states.is_share,
  states.committed_offset, asked.log_start_offset, asked.log_end_offset, asked.status,
  TRY_CAST(CAST(asked.log_end_offset AS DECIMAL(38, 0)) - states.committed_offset - states.done AS BIGINT) AS lag,
  CASE
    WHEN states.committed_offset >= asked.log_start_offset THEN 0
    WHEN states.committed_offset >= 0 THEN asked.log_start_offset - states.committed_offset
  END AS records_lost,
  CASE
    WHEN states.committed_offset >= asked.log_end_offset THEN 0
    ELSE CAST(
      epoch_ms(asked.seen_at) - epoch_ms(seen.seen_at)
        - (epoch_ms(seen.next_seen_at) - epoch_ms(seen.seen_at))
          * ((states.committed_offset - seen.highest) / (seen.next_highest - seen.highest))
      AS BIGINT
    )
  END AS estimated_lag_ms
FROM states
JOIN topic_offsets AS asked
  ON asked.audit_id = states.audit_id AND asked.topic = states.topic AND asked.partition = states.partition
  AND (states.topic_id IS NULL OR asked.topic_id IS NULL OR asked.topic_id = states.topic_id)
LEFT JOIN seen
  ON seen.topic = asked.topic AND seen.partition = asked.partition AND seen.topic_id IS NOT DISTINCT FROM asked.topic_id
  AND seen.highest <= states.committed_offset AND seen.next_highest > states.committed_offset
  AND seen.next_seen_at <= asked.seen_at
