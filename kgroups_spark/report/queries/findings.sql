SELECT severity, finding, group_id, topic, partition, since, detail
FROM findings
WHERE audit_id = (SELECT audit_id FROM findings_audit)
ORDER BY
  CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END,
  finding,
  group_id NULLS LAST,
  topic NULLS LAST,
  partition NULLS LAST,
  offsets_partition NULLS LAST
