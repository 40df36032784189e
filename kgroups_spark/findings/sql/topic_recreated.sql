-- warning by topics: committed offsets of a topic that was deleted and created again
--
-- {offsets:counted committed offset} of {group_id} on {topic} refer to a topic that was deleted; {topic} has been
-- created again[, at the latest at {since:time}]. They point into the deleted log. A consumer that resumes there skips
-- records or resets. Reset them: kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {group_id:word} --topic
-- {topic:word} --reset-offsets --to-earliest --execute

-- The view stale_offsets has all of them. An id that only a cluster reported is newer than all ids in the log.
WITH newest AS (
  SELECT topic, max_by(topic_id, (seen_log_timestamp IS NULL, seen_log_timestamp, topic_id)) AS newest_id,
    max_by(struct_pack(at := seen_log_timestamp), (seen_log_timestamp IS NULL, seen_log_timestamp, topic_id)).at AS since
  FROM topics
  GROUP BY topic
  HAVING count(*) > 1
)
SELECT offsets_partition, group_id, topic,
  max_by(first, topic_id) AS partition,
  max_by(last, topic_id) AS log_offset,
  any_value(since) AS since,
  CAST(sum(offsets) AS BIGINT) AS offsets
FROM (
  SELECT offsets_partition, group_id, topic, topic_id, since, min(partition) AS first, max(log_offset) AS last,
    count(*) AS offsets
  FROM committed_offsets JOIN newest USING (topic)
  WHERE topic_id <> newest_id
  GROUP BY ALL
)
GROUP BY offsets_partition, group_id, topic
