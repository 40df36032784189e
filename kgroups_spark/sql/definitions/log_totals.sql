-- The totals of all finished audits for each partition of __consumer_offsets
--
-- offsets_partition of audit_partitions
-- start_offset: Offset at which the first audit began to read
-- end_offset: Next offset: the log before it has been read
-- newest_log_timestamp of audit_partitions
-- read_from_start_by: The last audit that read it again from its start; 0: none has
-- records: Records read by that audit and since; by all audits if none has
-- bytes: Bytes of these records
-- records_in_all: Records read by all audits, without those that were read again
-- offsets_lost: Offsets lost before an audit read them; null: none

WITH again AS (
  SELECT offsets_partition, max(audit_id) AS audit_id
  FROM audit_partitions
  WHERE records_reread > 0
  GROUP BY offsets_partition
)
SELECT offsets_partition, min(reads.start_offset) AS start_offset, now.end_offset, now.newest_log_timestamp,
  coalesce(max(again.audit_id), 0) AS read_from_start_by,
  CAST(sum(CASE WHEN again.audit_id IS NULL OR reads.audit_id >= again.audit_id THEN reads.records END) AS BIGINT)
    AS records,
  CAST(sum(CASE WHEN again.audit_id IS NULL OR reads.audit_id >= again.audit_id THEN reads.bytes END) AS BIGINT)
    AS bytes,
  CAST(sum(reads.records - reads.records_reread) AS BIGINT) AS records_in_all,
  CAST(sum(reads.lost_to - reads.lost_from) AS BIGINT) AS offsets_lost
FROM audit_partitions AS reads
LEFT JOIN again USING (offsets_partition)
-- Every audit records how far every partition has been read.
JOIN audit_partitions AS now USING (offsets_partition)
WHERE now.audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
GROUP BY offsets_partition, now.end_offset, now.newest_log_timestamp
