SELECT
  event_timestamp, event, member_id, topic, partition, offset_before, offset_after, value_before, value_after, cause,
  log_offset
FROM all_events
WHERE log = '__consumer_offsets' AND group_id = :group_id
ORDER BY offsets_partition, log_offset, event_index
