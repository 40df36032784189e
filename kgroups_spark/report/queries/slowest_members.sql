-- The slowest members: the last of their group to reach a new epoch, the longest first (50 at most)
-- group_id Group; client_id Client id; slowest_member_id- Member id; times_last Times last :count; longest_s Longest
-- (s) :rate; newest- The newest (UTC) :time

SELECT group_id, slowest_member_id, client_id, count(*) AS times_last, max(duration_ms) AS longest_ms,
  max(finished_timestamp) AS newest
FROM rebalances
LEFT JOIN (
  SELECT offsets_partition, group_id, member_id AS slowest_member_id, max_by(client_id, log_offset) AS client_id
  FROM group_member_versions
  WHERE client_id IS NOT NULL
  GROUP BY offsets_partition, group_id, member_id
) AS names USING (offsets_partition, group_id, slowest_member_id)
WHERE slowest_member_id IS NOT NULL
  AND started_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND finished_timestamp <= (SELECT believed_until FROM last_audit)
GROUP BY offsets_partition, group_id, slowest_member_id, client_id
ORDER BY longest_ms DESC NULLS LAST, times_last DESC, group_id, slowest_member_id
LIMIT 50
