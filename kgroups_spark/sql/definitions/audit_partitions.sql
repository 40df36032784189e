-- How far each finished audit had read each partition of __consumer_offsets; a partition that it was not given keeps its earlier values
--
-- audit_id: The audit
-- offsets_partition of committed_offsets
-- topic_id: Topic id of the log; null: unknown
-- log_start_offset: First offset in the log when it was read; null: unknown
-- start_offset: Offset at which the audit began to read
-- end_offset: Next offset, at which the next audit begins
-- records: Records read
-- records_reread: Those of these records that were read before and not added again
-- bytes: Bytes read
-- offsets_missing: Offsets of the span without a record: compacted away
-- lost_from: First offset lost before this audit; null: none
-- lost_to: Offset after the last one lost before this audit; null: none
-- last_batch_offset: Base offset of the last batch read; null: none was ever read
-- last_leader_epoch: Its leader epoch; null: none (a legacy batch), or not confirmed yet
-- last_batch_crc: Its checksum, unsigned; null: no batch was ever read
-- newest_log_timestamp: Newest time in the log so far; null: none

SELECT audit_id, read.*
FROM (SELECT audit_id, unnest(partitions) AS read FROM audits WHERE status = 'finished')
WHERE read.topic IS NULL
