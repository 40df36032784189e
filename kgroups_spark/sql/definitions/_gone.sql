-- Entries that a partition of the two other logs no longer held when it was read again, and the log offset up to which
-- they are gone. `name`: a group or a transactional id; null: all entries of a log that began there.

SELECT log, state_partition, CAST(reported[1] AS BIGINT) AS gone_before, reported[2] AS name, reported[3] AS topic_id,
  CAST(reported[4] AS INTEGER) AS partition
FROM (
  SELECT log, state_partition, from_json(payload, '["VARCHAR"]') AS reported
  FROM main.state_log_state
  WHERE entry_type = 'gone' AND audit_id = (SELECT max(audit_id) FROM main.state_log_state)
)
