-- Ranges that the log no longer has as they were read, because it was cut back: the rows that audits before audit_id have of the partition from from_offset on stay in the tables, and are in no view of theirs and in no function
--
-- offsets_partition of committed_offsets
-- from_offset: First offset behind which the log was cut back
-- to_offset: Next offset of what had been read
-- audit_id: The audit that found it, and read from from_offset on what the log has instead

SELECT
  replaced.offsets_partition,
  replaced.from_offset,
  replaced.to_offset,
  replaced.audit_id
FROM (
  SELECT unnest(replaced_ranges) AS replaced
  FROM audits
  WHERE status = 'finished' AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
)
