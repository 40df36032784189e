-- Events of groups, in all three logs: group_events, and state_events with the groups that they are about: for a share partition its group, for a transaction that was aborted each group whose offsets were in it (a row each; none: one row without a group)
--
-- columns of group_events
-- offsets_partition: Partition of __consumer_offsets; null: the event is in another log
-- event_timestamp: Commit time, where an offset moved outside transactions; else log_timestamp
-- group_id: Group; null: no group had offsets in the transaction
-- event: As in group_events and state_events
-- offset_before: Committed offset before, of offset_restarted before the removal; of a share partition its start offset; null: none
-- offset_after: Committed offset or start offset after; null: none
-- value_before: State, type, generation, topic id, state epoch before; JSON of an assignment; null: none
-- log STRING: The log that it is in: __consumer_offsets, __share_group_state or __transaction_state
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
  told.audit_id,
  NULL,
  told.log_offset,
  told.log_timestamp,
  0,
  told.log_timestamp,
  coalesce(told.group_id, aborted.group_id),
  CASE WHEN told.group_id IS NOT NULL THEN 'share' END,
  told.event,
  NULL,
  topic_names.topic,
  told.partition,
  told.offset_before,
  told.offset_after,
  CAST(told.state_epoch_before AS VARCHAR),
  CAST(told.state_epoch_after AS VARCHAR),
  NULL,
  told.log,
  told.state_partition,
  told.transactional_id,
  told.producer_id,
  told.producer_epoch
FROM state_events AS told
LEFT JOIN topic_names ON topic_names.topic_id = told.topic_id
LEFT JOIN aborted
  ON aborted.producer_id = told.producer_id AND aborted.producer_epoch = told.producer_epoch
