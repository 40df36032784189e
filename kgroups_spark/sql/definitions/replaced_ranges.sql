-- Ranges that were read and later cut off the log: the partition's rows from from_offset on, read before audit_id, stay in the Delta tables and are in no view or function
--
-- offsets_partition: Partition of __consumer_offsets, or of topic
-- from_offset: First offset that was cut off the log
-- to_offset: Next offset after the range that had been read
-- audit_id: The audit that found it, and read the log's new records from from_offset on
-- topic: __share_group_state or __transaction_state; null: __consumer_offsets

SELECT replaced.*
FROM (
  SELECT unnest(replaced_ranges) AS replaced
  FROM audits
  WHERE status = 'finished' AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
)
