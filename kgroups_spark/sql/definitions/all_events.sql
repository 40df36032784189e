-- Events of groups, in all three logs: group_events, and state_events with their groups: for a share partition its group, for an aborted transaction a row for each group whose offsets were in it (one row without a group if none were)
--
-- columns of group_events
-- offsets_partition: Partition of __consumer_offsets; null: the event is in another log
-- event_timestamp: Commit time if an offset moved outside transactions; else log_timestamp
-- group_id: Group; null: no group had offsets in the transaction
-- event: As in group_events and state_events
-- offset_before: Committed offset before the event (offset_restarted: before the removal); start offset of a share partition; null: none
-- offset_after: Committed offset or start offset after the event; null: none
-- value_before: State, type, generation, topic id or state epoch before the event; an assignment as JSON; null: none
-- cause: As in group_events, and two causes that all partitions, or the cluster, show: probably_expired (overdue_since is set, and no partition was written from a day after that time to the hour of the removal: the brokers were off); topic_deleted also where the live audit that read the removal found no such topic
-- log STRING: The log of the event: __consumer_offsets, __share_group_state or __transaction_state
-- state_partition INT: Partition of that log; null: it is __consumer_offsets
-- transactional_id, producer_id, producer_epoch of state_events

WITH topic_names AS (
  SELECT topic_id, max(topic) AS topic FROM topics GROUP BY topic_id
),
-- An abort by the coordinator, and a fence, end a transaction with the epoch after its own.
aborted AS (
  SELECT DISTINCT producer_id, producer_epoch, group_id
  FROM (
    SELECT producer_id, producer_epoch - 1 AS producer_epoch, unnest(group_ids) AS group_id
    FROM transaction_markers
    WHERE outcome = 'aborted' AND transaction_start_offset IS NOT NULL
    UNION ALL
    SELECT producer_id, producer_epoch, unnest(group_ids) FROM open_transactions
  )
),
overdue AS (
  SELECT offsets_partition, group_id, log_offset, event_index, log_timestamp, overdue_since
  FROM group_events
  WHERE overdue_since IS NOT NULL
),
gone AS (
  SELECT
    *,
    bool_or(event = 'group_removed') OVER (PARTITION BY offsets_partition, group_id, log_timestamp) AS is_group_removed
  FROM group_events
),
-- Removals that the log of their partition does not explain.
explained AS (
  SELECT overdue.offsets_partition, overdue.group_id, log_offset, event_index, 'probably_expired' AS cause
  FROM overdue
  JOIN group_traffic AS traffic ON traffic.hour < date_trunc('hour', overdue.log_timestamp)
  GROUP BY overdue.offsets_partition, overdue.group_id, log_offset, event_index, overdue_since
  HAVING max(traffic.hour) <= overdue_since + INTERVAL '1' DAY
  UNION ALL
  SELECT gone.offsets_partition, gone.group_id, gone.log_offset, gone.event_index, 'topic_deleted'
  FROM gone
  JOIN topic_offsets AS seen
    ON seen.audit_id = gone.audit_id AND seen.topic = gone.topic AND seen.partition = gone.partition
  WHERE gone.event = 'offset_removed' AND gone.cause = 'unknown' AND gone.offset_before IS NOT NULL
    AND gone.overdue_since IS NULL AND NOT gone.is_group_removed AND seen.status = 'unknown_topic'
)
SELECT
  reported.* EXCLUDE (cause),
  coalesce(explained.cause, reported.cause) AS cause,
  '__consumer_offsets' AS log,
  CAST(NULL AS INTEGER) AS state_partition,
  CAST(NULL AS VARCHAR) AS transactional_id,
  CAST(NULL AS BIGINT) AS producer_id,
  CAST(NULL AS SMALLINT) AS producer_epoch
FROM group_events AS reported
LEFT JOIN explained
  ON explained.offsets_partition = reported.offsets_partition
  AND explained.group_id = reported.group_id
  AND explained.log_offset = reported.log_offset
  AND explained.event_index = reported.event_index
UNION ALL
SELECT
  reported.audit_id,
  NULL,
  reported.log_offset,
  reported.log_timestamp,
  0,
  reported.log_timestamp,
  coalesce(reported.group_id, aborted.group_id),
  CASE WHEN reported.group_id IS NOT NULL THEN 'share' END,
  reported.event,
  NULL,
  topic_names.topic,
  reported.partition,
  reported.offset_before,
  reported.offset_after,
  CAST(reported.state_epoch_before AS VARCHAR),
  CAST(reported.state_epoch_after AS VARCHAR),
  NULL,
  NULL,
  NULL,
  NULL,
  NULL,
  reported.log,
  reported.state_partition,
  reported.transactional_id,
  reported.producer_id,
  reported.producer_epoch
FROM state_events AS reported
LEFT JOIN topic_names ON topic_names.topic_id = reported.topic_id
LEFT JOIN aborted
  ON aborted.producer_id = reported.producer_id AND aborted.producer_epoch = reported.producer_epoch
