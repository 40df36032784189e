CREATE OR REPLACE TEMPORARY VIEW group_member_history (
  audit_id COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  log_offset COMMENT 'Place of the record in that partition''s log',
  log_timestamp COMMENT 'Time in the record; null: the record has none',
  is_removed COMMENT 'The record removed the member; the columns behind member_id are then null',
  group_id COMMENT 'Group',
  member_id COMMENT 'Member',
  group_instance_id COMMENT 'group.instance.id of a static member; null: dynamic',
  client_id COMMENT 'client.id; null: not logged',
  client_host COMMENT 'Host as the broker saw it; null: not logged',
  rack_id COMMENT 'Rack; null: not logged',
  rebalance_timeout_ms COMMENT 'Rebalance timeout; null: not logged',
  session_timeout_ms COMMENT 'Classic protocol: session timeout; null: not logged',
  member_epoch COMMENT 'Member epoch, -2: a static member that is away; null: classic, or none yet',
  previous_member_epoch COMMENT 'Epoch before; null: classic, or none yet',
  member_state COMMENT 'STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN; null: classic',
  uses_classic_protocol COMMENT 'Speaks the classic protocol; null: share and streams, which have no other',
  server_assignor COMMENT 'Assignor that the member asked for; null: none',
  subscribed_topics COMMENT 'Names subscribed to; null: unknown, its subscription cannot be read',
  subscribed_regex COMMENT 'Expression subscribed to; null: none',
  assigned_partitions COMMENT 'What it has; null: unknown, or streams',
  pending_revocation_partitions COMMENT 'What it has to give up; null: classic or streams',
  target_partitions COMMENT 'What it shall have; null: classic or streams',
  assigned_tasks COMMENT 'Streams: tasks it has; null: not streams',
  target_tasks COMMENT 'Streams: tasks it shall have; null: not streams',
  pending_revocation_tasks COMMENT 'Streams: tasks it has to give up; null: not streams',
  topology_epoch COMMENT 'Streams: epoch of the member''s topology; null: not streams',
  process_id COMMENT 'Streams: process; null: not streams',
  valid_from COMMENT 'Log time of the record; null: it has none that is believed (last_audit.believed_until), or a partition was read again and found so (when it happened is not known)',
  valid_to COMMENT 'Log time of the record that changed the member next, or the next time that is known (in a log without times: when the last audit began); null: still'
)
COMMENT 'group_member_versions, and until when each was so'
AS
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
      THEN coalesce(lead(believed_timestamp) IGNORE NULLS OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
