CREATE OR REPLACE TEMPORARY FUNCTION offsets_partition_of(
  group_id STRING COMMENT 'Group',
  partitions INT DEFAULT NULL COMMENT 'How many partitions there are; null: offsets_partition_count()'
)
RETURNS INT
COMMENT 'Partition of __consumer_offsets to which Kafka assigns the group'
RETURN
-- Kafka's Utils.abs: 0 for the one number that has no positive twin.
CAST(abs(CAST(java_hash(group_id) AS BIGINT) % 2147483648) % coalesce(partitions, offsets_partition_count()) AS INT)
