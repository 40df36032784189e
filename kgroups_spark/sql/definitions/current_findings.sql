-- The findings of the last audit that looked for findings: what is odd now
--
-- columns of findings

SELECT *
FROM findings
WHERE audit_id = (SELECT audit_id FROM findings_audit)
