CREATE OR REPLACE TEMPORARY FUNCTION expiring(
  until TIMESTAMP DEFAULT NULL COMMENT 'Only those that expire then or before; null: all',
  retention INTERVAL DAY TO SECOND DEFAULT NULL COMMENT 'As if offsets.retention.minutes were this; null: as the audit took it'
)
RETURNS TABLE (
  audit_id BIGINT COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition INT COMMENT 'Partition of __consumer_offsets',
  as_of TIMESTAMP COMMENT 'Time at which expiry was judged',
  retention_ms BIGINT COMMENT 'Retention that the rows are judged by',
  group_id STRING COMMENT 'Group',
  topic STRING COMMENT 'Topic',
  partition INT COMMENT 'Partition of the topic',
  committed_offset BIGINT COMMENT 'The committed offset',
  log_offset BIGINT COMMENT 'Record that committed it',
  decision STRING COMMENT 'expire or keep, at the broker''s next check after as_of',
  reason STRING COMMENT 'expire_timestamp_passed, before_expire_timestamp, retention_passed or within_retention: others have no time',
  base STRING COMMENT 'What is counted from: commit_timestamp, current_state_timestamp, expire_timestamp; null: none',
  base_timestamp TIMESTAMP COMMENT 'That time; null: none',
  expires_at TIMESTAMP COMMENT 'Earliest moment, if the group stays as it is; null: not as things stand',
  expires_at_if_empty TIMESTAMP COMMENT 'The same if its last member left at as_of; null: not even then',
  group_type STRING COMMENT 'classic, consumer, share or streams',
  state STRING COMMENT 'State of the group'
)
COMMENT 'Committed offsets of the last audit that expire as things stand, judged as of its time, for any retention; the broker removes them at its first check after expires_at'
RETURN
WITH judged AS (
  SELECT
    expiry.*,
    -- Before 2.1 nothing of a group mattered.
    replace(last_audit.release_version, 'v', '') RLIKE '^(0|1|2[.]0)([.]|$)' AS is_alone,
    groups.group_type,
    groups.state,
    committed.expire_timestamp,
    unix_millis(expiry.as_of) AS as_of_ms,
    unix_millis(expiry.base_timestamp) AS base_ms,
    unix_millis(expiry.expires_at) AS expires_ms,
    unix_millis(expiry.expires_at_if_empty) AS if_empty_ms,
    unix_millis(committed.commit_timestamp) AS commit_ms,
    coalesce(unix_millis(expiry.as_of + expiring.retention) - unix_millis(expiry.as_of), expiry.retention_ms) AS new_retention_ms
  FROM offset_expiry AS expiry
  JOIN committed_offsets AS committed
    ON committed.offsets_partition = expiry.offsets_partition
    AND committed.group_id = expiry.group_id
    AND committed.topic = expiry.topic
    AND committed.partition = expiry.partition
  CROSS JOIN last_audit
  LEFT JOIN groups
    ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
),
-- What a client gave does not depend on the retention, nor does what keeps an offset without a time.
due AS (
  SELECT
    *,
    CASE
      WHEN base = 'expire_timestamp' THEN expires_ms
      -- Before 2.1 an offset is still there at the very millisecond at which it is due.
      ELSE base_ms + new_retention_ms + greatest(least(expires_ms - base_ms - retention_ms, 1), 0)
    END AS due_ms
  FROM judged
  WHERE expires_at IS NOT NULL
),
moments AS (
  SELECT
    *,
    CASE
      WHEN base = 'expire_timestamp' THEN reason
      WHEN due_ms <= as_of_ms THEN 'retention_passed'
      ELSE 'within_retention'
    END AS new_reason,
    CASE
      WHEN if_empty_ms IS NULL THEN NULL
      -- Without members as it is.
      WHEN is_alone OR state = 'Empty' THEN due_ms
      WHEN base = 'expire_timestamp' THEN if_empty_ms
      WHEN group_type = 'classic' THEN as_of_ms + new_retention_ms
      ELSE greatest(coalesce(commit_ms, -1) + new_retention_ms, as_of_ms)
    END AS due_if_empty_ms
  FROM due
)
SELECT
  audit_id,
  offsets_partition,
  as_of,
  new_retention_ms AS retention_ms,
  group_id,
  topic,
  partition,
  committed_offset,
  log_offset,
  CASE WHEN due_ms <= as_of_ms THEN 'expire' ELSE 'keep' END AS decision,
  new_reason AS reason,
  base,
  base_timestamp,
  timestamp_millis(least(due_ms, 253402300799999)) AS expires_at,
  timestamp_millis(least(due_if_empty_ms, 253402300799999)) AS expires_at_if_empty,
  group_type,
  state
FROM moments
WHERE expiring.until IS NULL OR due_ms <= unix_millis(expiring.until)
