-- group_versions, each with the time at which it ended
--
-- columns of group_versions
-- valid_from: Log time of the record; null: its time does not count (last_audit.believed_until), or it was found when a partition was read again (so the time is unknown)
-- valid_to: Log time of the record that changed the group next, or the next known time (in a log without times: the start of the last audit); null: still

WITH versions AS (
  SELECT *,
    CASE WHEN log_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL ELSE log_timestamp END AS believed_timestamp
  FROM group_versions
)
SELECT *, believed_timestamp AS valid_from,
  -- If the next one has no time: the next known time, else its own, the last at which it is known to have been
  -- so. In a log without times: the start of the last audit, because it was no longer so by then.
  CASE
    WHEN lead(log_offset) OVER version IS NOT NULL
      THEN coalesce(lead(believed_timestamp IGNORE NULLS) OVER version, believed_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to
FROM versions
WINDOW version AS (PARTITION BY offsets_partition, group_id ORDER BY log_offset)
