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
)
SELECT
  *,
  '__consumer_offsets' AS log,
  CAST(NULL AS INTEGER) AS state_partition,
  CAST(NULL AS VARCHAR) AS transactional_id,
  CAST(NULL AS BIGINT) AS producer_id,
  CAST(NULL AS SMALLINT) AS producer_epoch
FROM group_events
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
  reported.log,
  reported.state_partition,
  reported.transactional_id,
  reported.producer_id,
  reported.producer_epoch
FROM state_events AS reported
LEFT JOIN topic_names ON topic_names.topic_id = reported.topic_id
LEFT JOIN aborted
  ON aborted.producer_id = reported.producer_id AND aborted.producer_epoch = reported.producer_epoch
