-- All of them
-- severity Severity; finding Finding; group_id Group; topic- Topic; partition- Partition :count; since- Since (UTC)
-- :time; detail! The problem, why it matters, what to do

SELECT severity, finding, group_id, topic, partition, since, detail
FROM current_findings
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, finding,
  group_id NULLS LAST, topic NULLS LAST, partition NULLS LAST, offsets_partition NULLS LAST
