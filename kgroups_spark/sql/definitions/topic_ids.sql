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
-- is_gone: The topic of this id is deleted: a newer id is known, the newest audit of a live cluster found no such topic, or offsets were removed because of the deletion after the last record with the id; false: nothing shows it
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
unknown_now AS (
  SELECT topic, true AS is_unknown
  FROM _topic_ends
  GROUP BY topic
  HAVING bool_and(status = 'unknown_topic')
),
deletions AS (
  SELECT topic, max(log_timestamp) AS deleted_at
  FROM group_events
  WHERE cause = 'topic_deleted' AND topic IS NOT NULL
  GROUP BY topic
),
ids AS (
  SELECT topic, topic_id, seen_log_timestamp AS valid_from, source, seen_in_cluster_at,
    coalesce(committed_offset_count, 0) AS committed_offset_count,
    row_number() OVER (
      PARTITION BY topic
      -- An id that only a cluster reported is newer than every id in the log.
      ORDER BY coalesce(seen_log_timestamp, seen_in_cluster_at) NULLS LAST, topic_id
    ) AS number
  FROM topics
  LEFT JOIN in_cluster USING (topic, topic_id)
  LEFT JOIN committed USING (topic, topic_id)
)
SELECT
  ids.* EXCLUDE (number),
  CAST(number AS INTEGER) AS number,
  lead(topic_id) OVER its IS NULL AS is_newest,
  lead(valid_from) OVER its AS valid_to,
  lead(topic_id) OVER its IS NOT NULL OR is_unknown IS NOT NULL
    OR coalesce(deletions.deleted_at > greatest(valid_from, seen_in_cluster_at), FALSE) AS is_gone
FROM ids
LEFT JOIN unknown_now USING (topic)
LEFT JOIN deletions USING (topic)
WINDOW its AS (PARTITION BY topic ORDER BY number)
