-- Members that wait for partitions, and who holds them, the longest first (50 at most)
-- group_id Group; wanted_by Waits; held_by Held by; partitions Partitions :count; topic- Topic; waiting_since Since
-- (UTC) :time; out_by Put out by (UTC) :time

SELECT group_id, wanted_by, held_by, count(*) AS partitions,
  min(coalesce(topic, topic_id)) AS topic,
  min(since) AS waiting_since, revoking_since, out_by
FROM waiting_partitions
GROUP BY offsets_partition, group_id, wanted_by, held_by, revoking_since, out_by
ORDER BY waiting_since NULLS LAST, group_id, wanted_by, held_by
LIMIT 50
