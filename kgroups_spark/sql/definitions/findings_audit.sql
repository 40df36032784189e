-- The last finished audit that looked for findings (kgroups maintain does not look): its rows of findings are the current ones; no row before the first
--
-- audit_id, finished_at, as_of of audits

SELECT audit_id, finished_at, as_of
FROM audits
WHERE status = 'finished'
  AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished' AND rows_added['findings'] IS NOT NULL)
