-- error by topic_offsets (audit_id == $audit_id): records were deleted before their group read them
--
-- {topic} has deleted up to {lost:counted record} that {group_id} had not read[ since {seen_before:time}], from offset
-- {first_lost} of partition {partition} on[, and of {others:counted other partition}]: nobody in the group will ever read
-- them. Records of compacted topics and markers count, too. Keep the topic's records longer (retention.ms,
-- retention.bytes), or read faster. offset_below_log_start says what happens to the group next

-- It counts only records deleted since the last live audit. offset_below_log_start reports the state while it lasts.
SELECT offsets_partition, group_id, topic, partition, first_lost, log_offset, commit_timestamp AS since, seen_before,
  CAST(sum(log_start_offset - first_lost) OVER of_topic AS BIGINT) AS lost, nullif(count(*) OVER of_topic - 1, 0) AS others
FROM (
  SELECT now.*, before.seen_at AS seen_before, greatest(committed_offset, coalesce(before.log_start_offset, 0)) AS first_lost
  FROM _with_ends AS now
  LEFT JOIN ends_before AS before ON before.topic = now.topic AND before.partition = now.partition
    AND before.topic_id IS NOT DISTINCT FROM end_id
)
WHERE first_lost < log_start_offset
WINDOW of_topic AS (PARTITION BY offsets_partition, group_id, topic)
QUALIFY row_number() OVER (of_topic ORDER BY log_start_offset - first_lost DESC, partition) = 1
