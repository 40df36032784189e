-- group_member_versions, each with the time at which it ended
--
-- columns of group_member_versions
-- group_instance_id: group.instance.id of a static member, in the row of a removal, too; null: dynamic
-- client_id: client.id, in the row of a removal, too; null: not logged
-- client_host: Host as the broker saw it, in the row of a removal, too; null: not logged
-- valid_from: Log time of the record; null: its time does not count (last_audit.believed_until), or it was found when a partition was read again (so the time is unknown)
-- valid_to: Log time of the record that changed the member next, or the next known time (in a log without times: the start of the last audit); null: still

WITH versions AS (
  SELECT *,
    CASE WHEN log_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL ELSE log_timestamp END AS believed_timestamp
  FROM group_member_versions
)
SELECT
  versions.* EXCLUDE (group_instance_id, client_id, client_host),
  CASE WHEN is_removed THEN lag(group_instance_id) OVER version ELSE group_instance_id END AS group_instance_id,
  CASE WHEN is_removed THEN lag(client_id) OVER version ELSE client_id END AS client_id,
  CASE WHEN is_removed THEN lag(client_host) OVER version ELSE client_host END AS client_host,
  believed_timestamp AS valid_from,
  -- If the next one has no time: the next known time, else its own, the last at which it is known to have been
  -- so. In a log without times: the start of the last audit, because it was no longer so by then.
  CASE
    WHEN lead(log_offset) OVER version IS NOT NULL
      THEN coalesce(lead(believed_timestamp IGNORE NULLS) OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
