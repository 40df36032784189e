SELECT severity, finding, group_id, topic, partition, since, detail
FROM current_findings
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, finding,
  group_id NULLS LAST, topic NULLS LAST, partition NULLS LAST, offsets_partition NULLS LAST
