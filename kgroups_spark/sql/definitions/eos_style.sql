-- Groups with offsets committed in transactions, and whether their producers have a transactional id for each input partition, as before KIP-447, or for each thread
--
-- group_id of committed_offsets
-- style: an id per partition (exactly_once): each id ends in the number of its partition, and there are several; an id per thread (exactly_once_v2): an id committed partitions of several numbers, several ids committed one partition, or an id is of the form that Kafka Streams gives to threads; unknown: neither
-- ids: Transactional ids in history, or producer ids where __transaction_state was not read
-- partitions: Partitions with offsets in transactions
-- most_partitions_of_an_id: Partition numbers of the id that has most

WITH commits AS (
  SELECT DISTINCT group_id,
    coalesce(names.transactional_id, CAST(producer_id AS VARCHAR)) AS id,
    names.transactional_id AS name, topic, partition
  FROM (
    SELECT DISTINCT group_id, producer_id, topic, partition
    FROM offset_commits
    WHERE is_transactional AND producer_id IS NOT NULL
  ) AS commits
  LEFT JOIN transactional_producers AS names USING (producer_id)
),
ids AS (
  SELECT group_id, id, max(name) AS name, min(partition) AS partition, count(DISTINCT partition) AS numbers
  FROM commits
  GROUP BY group_id, id
),
of_groups AS (
  SELECT group_id,
    count(DISTINCT topic || ' ' || partition) AS partitions,
    count(DISTINCT partition) AS numbers,
    count(*) > count(DISTINCT topic || ' ' || partition) AND count(name) = count(*) AS has_several_ids
  FROM commits
  GROUP BY group_id
)
SELECT group_id,
  CASE
    WHEN most > 1 OR has_thread THEN 'an id per thread'
    WHEN numbers > 1 AND ends_in_partition THEN 'an id per partition'
    WHEN has_several_ids THEN 'an id per thread'
    ELSE 'unknown'
  END AS style,
  ids, partitions, most AS most_partitions_of_an_id
FROM of_groups
JOIN (
  SELECT group_id, count(*) AS ids, max(numbers) AS most,
    bool_and(coalesce(regexp_extract(name, '([0-9]+)$', 1) = CAST(partition AS VARCHAR), FALSE)) AS ends_in_partition,
    bool_or(coalesce(regexp_matches(name, '-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]+$'), FALSE)) AS has_thread
  FROM ids
  GROUP BY group_id
) AS of_ids USING (group_id)
