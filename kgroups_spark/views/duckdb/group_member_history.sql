CREATE OR REPLACE VIEW group_member_history AS
WITH versions AS (
  SELECT
    *,
    CASE WHEN log_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL ELSE log_timestamp END AS believed_timestamp
  FROM group_member_versions
)
SELECT
  audit_id,
  offsets_partition,
  log_offset,
  log_timestamp,
  is_removed,
  group_id,
  member_id,
  group_instance_id,
  client_id,
  client_host,
  rack_id,
  rebalance_timeout_ms,
  session_timeout_ms,
  member_epoch,
  previous_member_epoch,
  member_state,
  uses_classic_protocol,
  server_assignor,
  subscribed_topics,
  subscribed_regex,
  assigned_partitions,
  pending_revocation_partitions,
  target_partitions,
  assigned_tasks,
  target_tasks,
  pending_revocation_tasks,
  topology_epoch,
  process_id,
  believed_timestamp AS valid_from,
  -- Where the next one has no time: the next time that is known, else its own, the last at which it is known to have been
  -- so. In a log without times: when the last audit began, for by then it was no longer so.
  CASE
    WHEN lead(log_offset) OVER version IS NOT NULL
      THEN coalesce(lead(believed_timestamp IGNORE NULLS) OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset);

COMMENT ON VIEW group_member_history IS 'group_member_versions, and until when each was so';
COMMENT ON COLUMN group_member_history.audit_id IS 'The audit that wrote the row (table audits)';
COMMENT ON COLUMN group_member_history.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN group_member_history.log_offset IS 'Place of the record in that partition''s log';
COMMENT ON COLUMN group_member_history.log_timestamp IS 'Time in the record; null: the record has none';
COMMENT ON COLUMN group_member_history.is_removed IS 'The record removed the member; the columns behind member_id are then null';
COMMENT ON COLUMN group_member_history.group_id IS 'Group';
COMMENT ON COLUMN group_member_history.member_id IS 'Member';
COMMENT ON COLUMN group_member_history.group_instance_id IS 'group.instance.id of a static member; null: dynamic';
COMMENT ON COLUMN group_member_history.client_id IS 'client.id; null: not logged';
COMMENT ON COLUMN group_member_history.client_host IS 'Host as the broker saw it; null: not logged';
COMMENT ON COLUMN group_member_history.rack_id IS 'Rack; null: not logged';
COMMENT ON COLUMN group_member_history.rebalance_timeout_ms IS 'Rebalance timeout; null: not logged';
COMMENT ON COLUMN group_member_history.session_timeout_ms IS 'Classic protocol: session timeout; null: not logged';
COMMENT ON COLUMN group_member_history.member_epoch IS 'Member epoch, -2: a static member that is away; null: classic, or none yet';
COMMENT ON COLUMN group_member_history.previous_member_epoch IS 'Epoch before; null: classic, or none yet';
COMMENT ON COLUMN group_member_history.member_state IS 'STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN; null: classic';
COMMENT ON COLUMN group_member_history.uses_classic_protocol IS 'Speaks the classic protocol; null: share and streams, which have no other';
COMMENT ON COLUMN group_member_history.server_assignor IS 'Assignor that the member asked for; null: none';
COMMENT ON COLUMN group_member_history.subscribed_topics IS 'Names subscribed to; null: unknown, its subscription cannot be read';
COMMENT ON COLUMN group_member_history.subscribed_regex IS 'Expression subscribed to; null: none';
COMMENT ON COLUMN group_member_history.assigned_partitions IS 'What it has; null: unknown, or streams';
COMMENT ON COLUMN group_member_history.pending_revocation_partitions IS 'What it has to give up; null: classic or streams';
COMMENT ON COLUMN group_member_history.target_partitions IS 'What it shall have; null: classic or streams';
COMMENT ON COLUMN group_member_history.assigned_tasks IS 'Streams: tasks it has; null: not streams';
COMMENT ON COLUMN group_member_history.target_tasks IS 'Streams: tasks it shall have; null: not streams';
COMMENT ON COLUMN group_member_history.pending_revocation_tasks IS 'Streams: tasks it has to give up; null: not streams';
COMMENT ON COLUMN group_member_history.topology_epoch IS 'Streams: epoch of the member''s topology; null: not streams';
COMMENT ON COLUMN group_member_history.process_id IS 'Streams: process; null: not streams';
COMMENT ON COLUMN group_member_history.valid_from IS 'Log time of the record; null: it has none that is believed (last_audit.believed_until), or a partition was read again and found so (when it happened is not known)';
COMMENT ON COLUMN group_member_history.valid_to IS 'Log time of the record that changed the member next, or the next time that is known (in a log without times: when the last audit began); null: still';
