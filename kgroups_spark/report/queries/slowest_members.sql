SELECT slow.group_id, slow.slowest_member_id, names.client_id, count(*) AS times_last,
  max(slow.duration_ms) AS longest_ms, max(slow.finished_timestamp) AS newest
FROM rebalances AS slow
LEFT JOIN (
  SELECT offsets_partition, group_id, member_id, max_by(client_id, log_offset) AS client_id
  FROM group_member_versions
  WHERE client_id IS NOT NULL
  GROUP BY offsets_partition, group_id, member_id
) AS names
  ON names.offsets_partition = slow.offsets_partition AND names.group_id = slow.group_id
  AND names.member_id = slow.slowest_member_id
WHERE slow.slowest_member_id IS NOT NULL
  AND slow.started_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND slow.finished_timestamp <= (SELECT believed_until FROM last_audit)
GROUP BY slow.offsets_partition, slow.group_id, slow.slowest_member_id, names.client_id
ORDER BY longest_ms DESC NULLS LAST, times_last DESC, slow.group_id, slow.slowest_member_id
LIMIT 50
