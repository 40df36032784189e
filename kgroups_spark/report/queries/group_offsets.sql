WITH owning AS (
  SELECT
    offsets_partition,
    group_id,
    topic,
    partition,
    client_id,
    client_host,
    valid_from AS owned_since,
    row_number() OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset DESC, member_id
    ) AS number
  FROM partition_owners
  WHERE released_log_offset IS NULL AND topic IS NOT NULL
),
-- Several members may own a partition: the last one that got it counts.
owners AS (
  SELECT * FROM owning WHERE number = 1
),
offsets AS (
  SELECT
    coalesce(stored.offsets_partition, owners.offsets_partition) AS offsets_partition,
    coalesce(stored.group_id, owners.group_id) AS group_id,
    coalesce(stored.topic, owners.topic) AS topic,
    coalesce(stored.partition, owners.partition) AS partition,
    -- A negative offset is none for every client.
    CASE WHEN stored.committed_offset >= 0 THEN stored.committed_offset END AS committed_offset,
    stored.commit_timestamp,
    owners.client_id,
    owners.client_host,
    owners.owned_since
  FROM committed_offsets AS stored
  FULL JOIN owners
    ON owners.offsets_partition = stored.offsets_partition
    AND owners.group_id = stored.group_id
    AND owners.topic = stored.topic
    AND owners.partition = stored.partition
),
numbered AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY group_id ORDER BY topic, partition, offsets_partition) AS number,
    count(*) OVER (PARTITION BY group_id) AS partitions
  FROM offsets
)
SELECT group_id, topic, partition, committed_offset, commit_timestamp, client_id, client_host, owned_since, partitions
FROM numbered
WHERE number <= 30
ORDER BY group_id, topic, partition, offsets_partition
