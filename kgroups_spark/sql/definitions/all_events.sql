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
-- cause: As in group_events, but unknown instead of no_members if the group had members meanwhile whose records were compacted away, or if kgroups maintain --keep has removed since when it has none, self_assigned instead of it if the offset moved three times or more while the group had no members, and two causes that all partitions, or the cluster, show: probably_expired (overdue_since is set, and no partition was written from a day after that time to the hour of the removal: the brokers were off); topic_deleted also where the live audit that read the removal found no such topic. member_left: left (by itself or by Admin: it was seen too recently to have timed out), session_expired, put_out_while_revoking (its rebalance timeout passed), static_expired (a static member that was away, or one of the classic protocol, which does not leave when it is closed); each with probably_ before it if it follows from the time alone, or from the brokers' setting of today; null: the log does not tell (as session timeouts of KIP-848 members where no live audit asked). member_replaced: replaced
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
gone AS (
  SELECT *,
    bool_or(event = 'group_removed') OVER (PARTITION BY offsets_partition, group_id, log_timestamp) AS is_group_removed
  FROM group_events
),
-- Members that left, by their last records. Target assignments are the coordinator's, all others show that the member was
-- there: its session cannot have ended much earlier than its timeout later.
versions AS (
  SELECT *,
    target_partitions IS NOT DISTINCT FROM lag(target_partitions) OVER its
      AND target_tasks IS NOT DISTINCT FROM lag(target_tasks) OVER its AS is_own
  FROM group_member_versions
  -- Without an epoch: the tombstone of its assignment, just before its own.
  WHERE is_removed OR member_epoch IS NOT NULL OR member_state IS NULL
  WINDOW its AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
),
last_versions AS (
  SELECT
    offsets_partition, group_id, member_id, log_offset, log_timestamp, is_removed,
    lag({
      'instance': group_instance_id, 'epoch': member_epoch,
      'is_revoking': member_state LIKE 'UNREVOKED%' AND uses_classic_protocol IS NOT TRUE,
      'rebalance_ms': rebalance_timeout_ms, 'session_ms': session_timeout_ms
    }) OVER (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset) AS last,
    last_value(CASE WHEN is_own THEN log_timestamp END IGNORE NULLS) OVER (
      PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS seen
  FROM versions
),
-- Only brokers know the session timeout of members of KIP-848: today's, which may have been another one then.
departures AS (
  SELECT gone.*,
    epoch_ms(gone.log_timestamp) - epoch_ms(gone.seen) AS age_ms,
    coalesce(gone.last.session_ms, TRY_CAST(settings.value AS BIGINT)) AS session_ms,
    CASE WHEN gone.last.session_ms IS NULL THEN 'probably_' ELSE '' END AS how_sure
  FROM last_versions AS gone
  LEFT JOIN group_settings AS settings
    ON settings.offsets_partition = gone.offsets_partition AND settings.group_id = gone.group_id
    AND settings.name = settings.group_type || '.session.timeout.ms'
  WHERE gone.is_removed AND gone.last IS NOT NULL
),
left_by AS (
  SELECT
    offsets_partition, group_id, member_id, log_offset, log_timestamp,
    CASE
      WHEN last.epoch = -2 THEN 'static_expired'
      -- The clock was set back: the age is unknown.
      WHEN age_ms < 0 THEN NULL
      WHEN session_ms IS NOT NULL AND 2 * age_ms < least(session_ms, last.rebalance_ms) THEN how_sure || 'left'
      WHEN last.is_revoking AND age_ms >= last.rebalance_ms THEN 'probably_put_out_while_revoking'
      WHEN last.is_revoking THEN NULL
      WHEN last.instance IS NOT NULL AND age_ms >= session_ms THEN 'probably_static_expired'
      WHEN age_ms BETWEEN session_ms AND session_ms + 1000 THEN 'probably_session_expired'
    END AS cause
  FROM departures
),
-- `visit`: the number of records before it, or with it, that changed the group's state or generation.
visits AS (
  SELECT *,
    sum(CASE WHEN event IN ('group_created', 'generation_changed', 'state_changed') THEN 1 ELSE 0 END) OVER (
      PARTITION BY offsets_partition, group_id ORDER BY log_offset
    ) AS visit
  FROM group_events
),
-- The next record is two generations later: the one between had members, whose records were compacted away.
hidden AS (
  SELECT offsets_partition, group_id, visit - count(*) AS visit
  FROM visits
  WHERE event IN ('group_created', 'generation_changed', 'state_changed')
  GROUP BY offsets_partition, group_id, visits.visit
  HAVING sum(CASE WHEN event = 'generation_changed' THEN CAST(value_after AS BIGINT) - CAST(value_before AS BIGINT) END) > 1
),
-- `moves`: how often the offset moved while the group had no members this time. An admin resets it once or twice.
quiet_moves AS (
  SELECT *, count(*) OVER (PARTITION BY offsets_partition, group_id, topic, partition, visit) AS moves
  FROM visits
  WHERE cause = 'no_members'
),
-- Causes that the records around an event do not show.
explained AS (
  SELECT overdue.offsets_partition, overdue.group_id, log_offset, event_index, 'probably_expired' AS cause
  FROM group_events AS overdue
  JOIN group_traffic AS traffic ON traffic.hour < date_trunc('hour', overdue.log_timestamp)
  WHERE overdue_since IS NOT NULL
  GROUP BY overdue.offsets_partition, overdue.group_id, log_offset, event_index, overdue_since
  HAVING max(traffic.hour) <= overdue_since + INTERVAL '1' DAY
  UNION ALL
  SELECT gone.offsets_partition, gone.group_id, gone.log_offset, gone.event_index, 'topic_deleted'
  FROM gone
  JOIN topic_offsets AS seen
    ON seen.audit_id = gone.audit_id AND seen.topic = gone.topic AND seen.partition = gone.partition
  WHERE gone.event = 'offset_removed' AND gone.cause = 'unknown' AND gone.offset_before IS NOT NULL
    AND gone.overdue_since IS NULL AND NOT gone.is_group_removed AND seen.status = 'unknown_topic'
  UNION ALL
  SELECT moved.offsets_partition, moved.group_id, moved.log_offset, event_index,
    CASE WHEN coalesce(hidden.visit, reduced_to) IS NULL THEN 'self_assigned' ELSE 'unknown' END
  FROM quiet_moves AS moved
  LEFT JOIN hidden ON hidden.offsets_partition = moved.offsets_partition AND hidden.group_id = moved.group_id
    AND hidden.visit = moved.visit
  -- The record since which the group has no members is no longer in history.
  LEFT JOIN _reduced AS reduced ON reduced.log = '__consumer_offsets'
    AND reduced.partition = moved.offsets_partition AND moved.visit = 0
  WHERE moves > 2 OR coalesce(hidden.visit, reduced_to) IS NOT NULL
  UNION ALL
  SELECT offsets_partition, group_id, gone.log_offset, event_index, left_by.cause
  FROM group_events AS gone
  JOIN left_by USING (offsets_partition, group_id, member_id, log_timestamp)
  WHERE left_by.log_offset <= gone.log_offset AND gone.event = 'member_left'
)
SELECT
  reported.* EXCLUDE (cause),
  coalesce(explained.cause, reported.cause, CASE WHEN reported.event = 'member_replaced' THEN 'replaced' END) AS cause,
  '__consumer_offsets' AS log, CAST(NULL AS INTEGER) AS state_partition, CAST(NULL AS VARCHAR) AS transactional_id,
  CAST(NULL AS BIGINT) AS producer_id, CAST(NULL AS SMALLINT) AS producer_epoch
FROM group_events AS reported
LEFT JOIN explained
  ON explained.offsets_partition = reported.offsets_partition AND explained.group_id = reported.group_id
  AND explained.log_offset = reported.log_offset AND explained.event_index = reported.event_index
UNION ALL
SELECT reported.audit_id, NULL, reported.log_offset, reported.log_timestamp, 0, reported.log_timestamp,
  coalesce(reported.group_id, aborted.group_id),
  CASE WHEN reported.group_id IS NOT NULL THEN 'share' END,
  reported.event, NULL, topic_names.topic, reported.partition, reported.offset_before, reported.offset_after,
  CAST(reported.state_epoch_before AS VARCHAR),
  CAST(reported.state_epoch_after AS VARCHAR),
  NULL, NULL, NULL, NULL, NULL, reported.log, reported.state_partition, reported.transactional_id, reported.producer_id,
  reported.producer_epoch
FROM state_events AS reported
LEFT JOIN topic_names USING (topic_id)
LEFT JOIN aborted USING (producer_id, producer_epoch)
