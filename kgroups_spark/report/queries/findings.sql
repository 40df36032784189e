SELECT severity, finding, group_id, topic, partition, since, detail
FROM findings
WHERE audit_id = (
  -- The last one that looked: kgroups maintain does not.
  SELECT max(audit_id) FROM audits WHERE status = 'finished' AND rows_added['findings'] IS NOT NULL
)
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, finding, group_id, topic, partition
