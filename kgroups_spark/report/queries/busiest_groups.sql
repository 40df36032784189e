-- The groups that wrote most, in the last 24 hours of log time (50 at most)
-- group_id Group; commits Commits :count; tombstones- Tombstones :count; other_records- Other records :count; bytes
-- Size :bytes

SELECT group_id,
  CAST(sum(commits) AS BIGINT) AS commits,
  CAST(sum(tombstones) AS BIGINT) AS tombstones,
  CAST(sum(other_records) AS BIGINT) AS other_records,
  CAST(sum(bytes) AS BIGINT) AS bytes
FROM group_traffic
WHERE hour > (SELECT max(hour) FROM group_traffic WHERE hour <= (SELECT believed_until FROM last_audit)) - INTERVAL '24' HOUR
  AND hour <= (SELECT believed_until FROM last_audit)
GROUP BY offsets_partition, group_id
ORDER BY bytes DESC, group_id
LIMIT 50
