-- Committed offsets and owners
-- topic Topic; partition Partition :count; committed_offset Committed offset :count; commit_timestamp- Committed (UTC)
-- :time; client_id Owner; client_host- Its host; owned_since- Owner since (UTC) :time

-- Several members may own a partition: the last one that got it counts.
WITH owning AS (
  SELECT
    offsets_partition, group_id, topic, partition, client_id, client_host, valid_from AS owned_since,
    row_number() OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset DESC, member_id
    ) AS number
  FROM partition_owners
  WHERE released_log_offset IS NULL AND topic IS NOT NULL
),
numbered AS (
  SELECT
    offsets_partition, group_id, topic, partition, commit_timestamp, client_id, client_host, owned_since,
    -- A negative offset is none for every client.
    CASE WHEN committed_offset >= 0 THEN committed_offset END AS committed_offset,
    row_number() OVER (PARTITION BY group_id ORDER BY topic, partition, offsets_partition) AS number,
    count(*) OVER (PARTITION BY group_id) AS partitions
  FROM committed_offsets
  FULL JOIN (SELECT * FROM owning WHERE number = 1) AS owners
    USING (offsets_partition, group_id, topic, partition)
)
SELECT group_id, topic, partition, committed_offset, commit_timestamp, client_id, client_host, owned_since, partitions
FROM numbered
WHERE number <= 30
ORDER BY group_id, topic, partition, offsets_partition
