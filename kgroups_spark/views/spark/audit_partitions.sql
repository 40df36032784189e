CREATE OR REPLACE TEMPORARY VIEW audit_partitions (
  audit_id COMMENT 'The audit',
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  topic_id COMMENT 'Topic id of the log; null: unknown',
  log_start_offset COMMENT 'First offset that the log still had; null: unknown',
  start_offset COMMENT 'Where the audit began to read',
  end_offset COMMENT 'Next offset: where the next audit begins',
  records COMMENT 'Records read',
  records_reread COMMENT 'Records of these that were read before and not added again',
  bytes COMMENT 'Bytes read',
  offsets_missing COMMENT 'Offsets of the span without a record: compacted away',
  lost_from COMMENT 'First offset that was gone before we came; null: none',
  lost_to COMMENT 'Offset after the last one that was gone before we came; null: none',
  last_batch_offset COMMENT 'Base offset of the last batch read; null: none was ever read',
  last_leader_epoch COMMENT 'Its leader epoch; null: none, or a legacy batch',
  last_batch_crc COMMENT 'Its checksum, unsigned; null: no batch was ever read',
  newest_log_timestamp COMMENT 'Newest time in the log so far; null: none'
)
COMMENT 'How far each finished audit had read each partition of __consumer_offsets; a partition that it was not given stands as it stood'
AS
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
FROM (SELECT audit_id, explode(partitions) AS read FROM audits WHERE status = 'finished')
