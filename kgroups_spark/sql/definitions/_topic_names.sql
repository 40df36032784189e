-- The name of each topic id of share partitions, as far as it is known.

SELECT topic_id, max(topic) AS topic
FROM (SELECT topic_id, topic FROM main.share_partitions UNION ALL SELECT topic_id, topic FROM main.topics)
GROUP BY topic_id
