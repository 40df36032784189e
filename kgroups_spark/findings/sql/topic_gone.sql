-- warning by topic_offsets (audit_id == $audit_id): a topic that a group reads does not exist
-- of a group the first by topic
-- The cluster has no topic {topic}, {use} of {group_id}[; and so it is with {others:counted other topic}]. It was deleted, or
-- the name is wrong: consumers wait for it and report no error. When it is created again, it begins at offset 0. If the group
-- no longer needs it, correct the subscription, and delete offsets that are left: kafka-consumer-groups.sh
-- --bootstrap-server HOST:PORT --delete-offsets --group {group_id:word} --topic {topic:word}

WITH gone AS (
  SELECT topic FROM topic_offsets WHERE audit_id = $audit_id
  GROUP BY topic HAVING bool_and(status = 'unknown_topic')
),
used AS (
  SELECT offsets_partition, group_id, unnest(subscribed_topics) AS topic, true AS is_subscribed FROM group_members
  UNION ALL
  SELECT offsets_partition, group_id, topic, false FROM committed_offsets
)
SELECT offsets_partition, group_id, topic,
  CASE WHEN bool_or(is_subscribed) THEN 'to which members subscribe' ELSE 'and there are committed offsets of it' END AS use
FROM used JOIN gone USING (topic)
GROUP BY offsets_partition, group_id, topic
