-- Partition of __consumer_offsets to which Kafka assigns the group
--
-- argument group_id STRING: Group
-- argument partitions INT = offsets_partition_count(): Number of partitions; not given: offsets_partition_count()
-- returns INT

-- Kafka's Utils.abs: 0 for the one number without a positive counterpart.
CAST(abs(CAST(java_hash(group_id) AS BIGINT) % 2147483648) % partitions AS INTEGER)
