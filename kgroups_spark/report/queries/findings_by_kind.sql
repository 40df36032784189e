SELECT severity, finding, count(*) AS findings, count(DISTINCT group_id) AS group_count, min(since) AS since
FROM findings
WHERE audit_id = (
  -- The last one that looked: kgroups maintain does not.
  SELECT max(audit_id) FROM audits WHERE status = 'finished' AND rows_added['findings'] IS NOT NULL
)
GROUP BY severity, finding
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, findings DESC, finding
