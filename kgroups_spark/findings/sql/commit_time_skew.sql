-- warning by times_off: commit times that differ from the log's
--
-- {commits:counted commit} of {group_id} {commits:has|have} a commit time that is not the record's: {topic}-{partition}
-- is {off_ms:duration} {side}. A broker writes both at once, so these times were copied, restored, or set by a client.
-- Retention counts from the commit time: they expire earlier or later than expected. A new commit restarts the retention
-- period

-- A broker takes both times from one clock at one moment. Several ranges may have found the same group.
SELECT
  * EXCLUDE (commits),
  CAST(sum(commits) OVER of_group AS BIGINT) AS commits,
  abs(commit_timestamp - log_timestamp) AS off_ms,
  CASE WHEN commit_timestamp > log_timestamp THEN 'ahead' ELSE 'behind' END AS side,
  CASE WHEN log_timestamp BETWEEN -62135596800000 AND 253402300799999 THEN make_timestamptz(log_timestamp * 1000) END
    AS since
FROM times_off
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY log_offset) = 1
