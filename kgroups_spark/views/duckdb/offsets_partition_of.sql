-- Kafka's Utils.abs: 0 for the one number that has no positive twin.
CREATE OR REPLACE MACRO offsets_partition_of
  (group_id, partitions) AS (CAST(abs(CAST(java_hash(group_id) AS BIGINT) % 2147483648) % partitions AS INTEGER)),
  (group_id) AS (CAST(abs(CAST(java_hash(group_id) AS BIGINT) % 2147483648) % offsets_partition_count() AS INTEGER));

COMMENT ON MACRO offsets_partition_of IS 'Partition of __consumer_offsets to which Kafka assigns the group. partitions: how many partitions there are; not given: offsets_partition_count()';
