-- Committed offsets of the last audit that expire if their groups stay as they are, judged as of its time, for any retention; the broker removes them at its first check after expires_at
--
-- argument until TIMESTAMP = NULL: Only those that expire then or before; null: all
-- argument retention INTERVAL DAY TO SECOND = NULL: As if offsets.retention.minutes were this; null: the audit's
-- argument if_empty BOOLEAN = NULL: As if the last member of every group had left at the audit's time
-- columns of offset_expiry
-- retention_ms: Retention by which the rows are judged
-- reason: expire_timestamp_passed, before_expire_timestamp, retention_passed or within_retention (the other reasons have no time)
-- group_type STRING: classic, consumer, share or streams
-- state STRING: State of the group

-- DuckDB replaces an argument's name by its text, so none of our names there may be one that a caller uses.
WITH kgroups_arguments AS (
  SELECT
    CAST(until AS TIMESTAMPTZ) AS kgroups_until,
    CAST(retention AS INTERVAL) AS kgroups_retention,
    coalesce(CAST(if_empty AS BOOLEAN), FALSE) AS kgroups_if_empty
),
judged AS (
  SELECT expiry.*,
    -- Before 2.1 the group did not matter.
    regexp_matches(replace(last_audit.release_version, 'v', ''), '^(0|1|2[.]0)([.]|$)') AS is_alone,
    groups.group_type, groups.state,
    -- A time of the client's (in 2.1 also the millisecond before 1970, for which the table has none).
    expiry.base IS NOT DISTINCT FROM 'expire_timestamp' OR committed.expire_timestamp IS NOT NULL
      OR (groups.group_type = 'classic' AND expiry.expires_at_if_empty <= expiry.as_of) AS has_own_time,
    kgroups_until, kgroups_if_empty, epoch_ms(expiry.as_of) AS as_of_ms, epoch_ms(expiry.base_timestamp) AS base_ms,
    epoch_ms(expiry.expires_at) AS expires_ms, epoch_ms(expiry.expires_at_if_empty) AS if_empty_ms,
    epoch_ms(committed.commit_timestamp) AS commit_ms,
    coalesce(epoch_ms(expiry.as_of + kgroups_retention) - epoch_ms(expiry.as_of), expiry.retention_ms) AS new_retention_ms
  FROM main.offset_expiry AS expiry
  JOIN main.committed_offsets AS committed USING (offsets_partition, group_id, topic, partition)
  CROSS JOIN main.last_audit
  CROSS JOIN kgroups_arguments
  LEFT JOIN main.groups USING (offsets_partition, group_id)
),
-- A client's own expiry time does not depend on the retention, nor do the reasons that keep an offset without a time.
due AS (
  SELECT *,
    CASE
      WHEN expires_ms IS NULL OR base = 'expire_timestamp' THEN expires_ms
      -- Before 2.1 an offset still exists at the very millisecond at which it is due.
      ELSE base_ms + new_retention_ms + greatest(least(expires_ms - base_ms - retention_ms, 1), 0)
    END AS due_ms
  FROM judged
),
emptied AS (
  SELECT *,
    CASE
      WHEN if_empty_ms IS NULL THEN NULL
      -- Without members as it is.
      WHEN is_alone OR state = 'Empty' THEN due_ms
      WHEN has_own_time THEN if_empty_ms
      WHEN group_type = 'classic' THEN as_of_ms + new_retention_ms
      ELSE greatest(coalesce(commit_ms, -1) + new_retention_ms, as_of_ms)
    END AS due_if_empty_ms
  FROM due
),
moments AS (
  SELECT *, CASE WHEN kgroups_if_empty THEN coalesce(due_if_empty_ms, due_ms) ELSE due_ms END AS moment_ms
  FROM emptied
)
SELECT
  * EXCLUDE (retention_ms, decision, reason, expires_at, expires_at_if_empty),
  new_retention_ms AS retention_ms,
  CASE WHEN moment_ms <= as_of_ms THEN 'expire' ELSE 'keep' END AS decision,
  CASE
    WHEN base = 'expire_timestamp' AND moment_ms = due_ms THEN reason
    WHEN moment_ms <= as_of_ms THEN 'retention_passed'
    ELSE 'within_retention'
  END AS reason,
  make_timestamptz(1000 * least(moment_ms, 253402300799999)) AS expires_at,
  make_timestamptz(1000 * least(due_if_empty_ms, 253402300799999)) AS expires_at_if_empty
FROM moments
WHERE moment_ms IS NOT NULL AND (kgroups_until IS NULL OR moment_ms <= epoch_ms(kgroups_until))
