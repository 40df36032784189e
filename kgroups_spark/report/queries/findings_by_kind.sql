-- Findings of the last audit by kind, errors first
-- severity Severity; finding Finding; findings Findings :count; group_count Groups :count; since- Since (UTC) :time

SELECT severity, finding, count(*) AS findings, count(DISTINCT group_id) AS group_count, min(since) AS since
FROM current_findings
GROUP BY severity, finding
ORDER BY CASE severity WHEN 'error' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, findings DESC, finding
