WITH firsts AS (
  SELECT partition AS offsets_partition, date_trunc('day', log_timestamp) AS day, min(log_offset) AS first_offset
  FROM log_times
  WHERE log = '__consumer_offsets' AND log_timestamp <= (SELECT believed_until FROM last_audit)
  GROUP BY partition, date_trunc('day', log_timestamp)
),
days AS (
  SELECT DISTINCT day FROM firsts WHERE day > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
),
-- The log of a partition as of the end of a day: what lies before its first record of a later day.
ends AS (
  SELECT days.day, partitions.offsets_partition, coalesce(min(firsts.first_offset), 9223372036854775807) AS end_offset
  FROM days
  CROSS JOIN (SELECT DISTINCT offsets_partition FROM firsts) AS partitions
  LEFT JOIN firsts ON firsts.offsets_partition = partitions.offsets_partition AND firsts.day > days.day
  GROUP BY days.day, partitions.offsets_partition
),
-- The days that kgroups maintain --keep has reduced are no longer known.
unknown AS (
  SELECT DISTINCT ends.day
  FROM ends
  JOIN checkpoints AS reduced ON reduced.offsets_partition = ends.offsets_partition
  WHERE reduced.reason = 'keep' AND reduced.log IS NULL AND ends.end_offset < reduced.log_offset
),
versions AS (
  SELECT offsets_partition, group_id, group_type, state, is_removed, log_offset,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS next_log_offset
  FROM group_versions
)
SELECT ends.day, versions.group_type, versions.state, count(DISTINCT versions.group_id) AS group_count
FROM ends
JOIN versions
  ON versions.offsets_partition = ends.offsets_partition AND versions.log_offset < ends.end_offset
  AND coalesce(versions.next_log_offset, 9223372036854775807) >= ends.end_offset
WHERE NOT versions.is_removed AND ends.day NOT IN (SELECT day FROM unknown)
GROUP BY ends.day, versions.group_type, versions.state
ORDER BY ends.day, versions.group_type, versions.state
