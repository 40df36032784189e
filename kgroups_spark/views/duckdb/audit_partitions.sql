CREATE OR REPLACE VIEW audit_partitions AS
SELECT
  audit_id,
  read.offsets_partition,
  read.topic_id,
  read.log_start_offset,
  read.start_offset,
  read.end_offset,
  read.records,
  read.records_reread,
  read.bytes,
  read.offsets_missing,
  read.lost_from,
  read.lost_to,
  read.last_batch_offset,
  read.last_leader_epoch,
  read.last_batch_crc,
  read.newest_log_timestamp
FROM (SELECT audit_id, unnest(partitions) AS read FROM audits WHERE status = 'finished');

COMMENT ON VIEW audit_partitions IS 'How far each finished audit had read each partition of __consumer_offsets; a partition that it was not given stands as it stood';
COMMENT ON COLUMN audit_partitions.audit_id IS 'The audit';
COMMENT ON COLUMN audit_partitions.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN audit_partitions.topic_id IS 'Topic id of the log; null: unknown';
COMMENT ON COLUMN audit_partitions.log_start_offset IS 'First offset that the log still had; null: unknown';
COMMENT ON COLUMN audit_partitions.start_offset IS 'Where the audit began to read';
COMMENT ON COLUMN audit_partitions.end_offset IS 'Next offset: where the next audit begins';
COMMENT ON COLUMN audit_partitions.records IS 'Records read';
COMMENT ON COLUMN audit_partitions.records_reread IS 'Records of these that were read before and not added again';
COMMENT ON COLUMN audit_partitions.bytes IS 'Bytes read';
COMMENT ON COLUMN audit_partitions.offsets_missing IS 'Offsets of the span without a record: compacted away';
COMMENT ON COLUMN audit_partitions.lost_from IS 'First offset that was gone before we came; null: none';
COMMENT ON COLUMN audit_partitions.lost_to IS 'Offset after the last one that was gone before we came; null: none';
COMMENT ON COLUMN audit_partitions.last_batch_offset IS 'Base offset of the last batch read; null: none was ever read';
COMMENT ON COLUMN audit_partitions.last_leader_epoch IS 'Its leader epoch; null: none, or a legacy batch';
COMMENT ON COLUMN audit_partitions.last_batch_crc IS 'Its checksum, unsigned; null: no batch was ever read';
COMMENT ON COLUMN audit_partitions.newest_log_timestamp IS 'Newest time in the log so far; null: none';
