CREATE OR REPLACE TEMPORARY VIEW group_history (
  audit_id COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  log_offset COMMENT 'Place of the record in that partition''s log',
  log_timestamp COMMENT 'Time in the record; null: the record has none',
  is_removed COMMENT 'The record removed the group; the columns behind group_id are then null',
  group_id COMMENT 'Group',
  group_type COMMENT 'classic, consumer, share or streams',
  state COMMENT 'State in Kafka''s words, as the log alone tells it (a live PreparingRebalance is never logged)',
  is_simple COMMENT 'The group only has offsets: nobody ever joined it, or its metadata is gone',
  protocol_type COMMENT 'Classic: consumer, connect, ...; null: none (simple groups)',
  protocol COMMENT 'Classic: name of the chosen protocol, as range; null: none or not classic',
  generation COMMENT 'Classic: generation; null: not classic',
  group_epoch COMMENT 'Consumer, share, streams: group epoch; null: classic',
  assignment_epoch COMMENT 'Consumer, share, streams: epoch of the target assignment; null: none yet, or classic',
  leader COMMENT 'Classic: member id of the leader; null: none or not classic',
  current_state_timestamp COMMENT 'Classic: time of the state in the group''s own record; null: not logged',
  state_since COMMENT 'Log time of the record that led to the state; null: that record has no time',
  member_count COMMENT 'Members of the group',
  metadata_hash COMMENT 'Consumer, share, streams: hash of the subscribed topics'' metadata; null: not logged',
  resolved_regex_topics COMMENT 'Topics per subscribed expression; null: none',
  is_misplaced COMMENT 'The group''s name does not hash to this partition; null: number of partitions unknown',
  valid_from COMMENT 'Log time of the record; null: it has none that is believed (last_audit.believed_until), or a partition was read again and found so (when it happened is not known)',
  valid_to COMMENT 'Log time of the record that changed the group next, or the next time that is known (in a log without times: when the last audit began); null: still'
)
COMMENT 'group_versions, and until when each was so'
AS
WITH versions AS (
  SELECT
    *,
    CASE WHEN log_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL ELSE log_timestamp END AS believed_timestamp
  FROM group_versions
)
SELECT
  audit_id,
  offsets_partition,
  log_offset,
  log_timestamp,
  is_removed,
  group_id,
  group_type,
  state,
  is_simple,
  protocol_type,
  protocol,
  generation,
  group_epoch,
  assignment_epoch,
  leader,
  current_state_timestamp,
  state_since,
  member_count,
  metadata_hash,
  resolved_regex_topics,
  is_misplaced,
  believed_timestamp AS valid_from,
  -- Where the next one has no time: the next time that is known, else its own, the last at which it is known to have been
  -- so. In a log without times: when the last audit began, for by then it was no longer so.
  CASE
    WHEN lead(log_offset) OVER version IS NOT NULL
      THEN coalesce(lead(believed_timestamp) IGNORE NULLS OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id ORDER BY log_offset)
