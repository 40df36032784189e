-- Events, the newest first
-- event_timestamp When (UTC) :time; event Event; topic- Topic; partitions- Partitions :count; change Change, member or
-- cause

WITH numbered AS (
  SELECT group_id, event_timestamp, event, cause, topic,
    nullif(count(DISTINCT partition), 0) AS partitions,
    count(*) AS events, min(member_id) AS member_id, min(value_before) AS value_before, min(value_after) AS value_after,
    min(partition) AS partition,
    min_by(offset_before, partition) AS offset_before,
    min_by(offset_after, partition) AS offset_after,
    row_number() OVER (PARTITION BY group_id ORDER BY max(log_offset) DESC, event, topic, offsets_partition) AS number,
    count(*) OVER (PARTITION BY group_id) AS of_group
  FROM all_events
  WHERE log = '__consumer_offsets'
  GROUP BY offsets_partition, group_id, event_timestamp, event, cause, topic
)
SELECT group_id, event_timestamp, event, cause, topic, partitions, events, member_id, value_before, value_after,
  partition, offset_before, offset_after, of_group
FROM numbered
WHERE number <= 15
ORDER BY group_id, number
