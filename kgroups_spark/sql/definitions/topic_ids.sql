-- Known topic ids, topic by topic: a topic that was deleted and created again has a new one
--
-- topic of committed_offsets
-- topic_id of topics
-- number: 1: the oldest known id of the topic, 2: the next one, ...
-- is_newest: No newer id is known
-- valid_from: Log time of the first record that has it; null: only the cluster reported it, or that record has no time
-- valid_to: valid_from of the next one: by then the topic had been created again; null: is_newest, or unknown
-- source: The first source: offset_commit, group_record or cluster
-- seen_in_cluster_at: When a cluster last reported this id for the topic; null: never, or the topic had no committed offsets
-- committed_offset_count: Committed offsets with this id: stale ones if it is not the newest (view stale_offsets)

WITH in_cluster AS (
  SELECT topic, topic_id, max(seen_at) AS seen_in_cluster_at
  FROM topic_offsets
  WHERE topic_id IS NOT NULL
  GROUP BY topic, topic_id
),
committed AS (
  SELECT topic, topic_id, count(*) AS committed_offset_count
  FROM committed_offsets
  WHERE topic_id IS NOT NULL
  GROUP BY topic, topic_id
),
ids AS (
  SELECT
    topics.topic,
    topics.topic_id,
    topics.seen_log_timestamp AS valid_from,
    topics.source,
    in_cluster.seen_in_cluster_at,
    coalesce(committed.committed_offset_count, 0) AS committed_offset_count,
    row_number() OVER (
      PARTITION BY topics.topic
      -- An id that only a cluster reported is newer than every id in the log.
      ORDER BY
        coalesce(topics.seen_log_timestamp, in_cluster.seen_in_cluster_at) NULLS LAST, topics.topic_id
    ) AS number
  FROM topics
  LEFT JOIN in_cluster ON in_cluster.topic = topics.topic AND in_cluster.topic_id = topics.topic_id
  LEFT JOIN committed ON committed.topic = topics.topic AND committed.topic_id = topics.topic_id
)
SELECT
  * EXCLUDE (number),
  CAST(number AS INTEGER) AS number,
  lead(topic_id) OVER (PARTITION BY topic ORDER BY number) IS NULL AS is_newest,
  lead(valid_from) OVER (PARTITION BY topic ORDER BY number) AS valid_to
FROM ids
