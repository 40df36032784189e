CREATE OR REPLACE VIEW group_history AS
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
      THEN coalesce(lead(believed_timestamp IGNORE NULLS) OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id ORDER BY log_offset);

COMMENT ON VIEW group_history IS 'group_versions, and until when each was so';
COMMENT ON COLUMN group_history.audit_id IS 'The audit that wrote the row (table audits)';
COMMENT ON COLUMN group_history.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN group_history.log_offset IS 'Place of the record in that partition''s log';
COMMENT ON COLUMN group_history.log_timestamp IS 'Time in the record; null: the record has none';
COMMENT ON COLUMN group_history.is_removed IS 'The record removed the group; the columns behind group_id are then null';
COMMENT ON COLUMN group_history.group_id IS 'Group';
COMMENT ON COLUMN group_history.group_type IS 'classic, consumer, share or streams';
COMMENT ON COLUMN group_history.state IS 'State in Kafka''s words, as the log alone tells it (a live PreparingRebalance is never logged)';
COMMENT ON COLUMN group_history.is_simple IS 'The group only has offsets: nobody ever joined it, or its metadata is gone';
COMMENT ON COLUMN group_history.protocol_type IS 'Classic: consumer, connect, ...; null: none (simple groups)';
COMMENT ON COLUMN group_history.protocol IS 'Classic: name of the chosen protocol, as range; null: none or not classic';
COMMENT ON COLUMN group_history.generation IS 'Classic: generation; null: not classic';
COMMENT ON COLUMN group_history.group_epoch IS 'Consumer, share, streams: group epoch; null: classic';
COMMENT ON COLUMN group_history.assignment_epoch IS 'Consumer, share, streams: epoch of the target assignment; null: none yet, or classic';
COMMENT ON COLUMN group_history.leader IS 'Classic: member id of the leader; null: none or not classic';
COMMENT ON COLUMN group_history.current_state_timestamp IS 'Classic: time of the state in the group''s own record; null: not logged';
COMMENT ON COLUMN group_history.state_since IS 'Log time of the record that led to the state; null: that record has no time';
COMMENT ON COLUMN group_history.member_count IS 'Members of the group';
COMMENT ON COLUMN group_history.metadata_hash IS 'Consumer, share, streams: hash of the subscribed topics'' metadata; null: not logged';
COMMENT ON COLUMN group_history.resolved_regex_topics IS 'Topics per subscribed expression; null: none';
COMMENT ON COLUMN group_history.is_misplaced IS 'The group''s name does not hash to this partition; null: number of partitions unknown';
COMMENT ON COLUMN group_history.valid_from IS 'Log time of the record; null: it has none that is believed (last_audit.believed_until), or a partition was read again and found so (when it happened is not known)';
COMMENT ON COLUMN group_history.valid_to IS 'Log time of the record that changed the group next, or the next time that is known (in a log without times: when the last audit began); null: still';
