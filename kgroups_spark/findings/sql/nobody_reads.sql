-- notice by topic_offsets (audit_id == $audit_id): a group has no members, and its lag grows
-- of a group the first by log_end_offset - committed_offset DESC, topic, partition
-- {group_id} has no members, and its committed offset {committed_offset} of {topic}-{partition} stays, while the log has
-- grown from {end_before} to {log_end_offset} since {seen_before:time}[; and so it is with {others:counted other partition}]:
-- {lag:counted record} {lag:waits|wait}. Start its consumers before the topic deletes these records or the offsets expire. If
-- it is no longer needed: kafka-consumer-groups.sh --bootstrap-server HOST:PORT --delete --group {group_id:word}

-- The consumers of a simple group have no members either: they may keep their offsets elsewhere.
SELECT offsets_partition, group_id, topic, partition, committed_offset, end_before, log_end_offset, seen_before, log_offset,
  state_since AS since,
  CAST(sum(log_end_offset - committed_offset) OVER (PARTITION BY offsets_partition, group_id) AS BIGINT) AS lag
FROM _since_before JOIN (
  SELECT offsets_partition, group_id, state_since FROM groups WHERE member_count = 0 AND NOT is_simple
) USING (offsets_partition, group_id)
WHERE committed_offset = offset_before AND log_end_offset > end_before AND log_end_offset > committed_offset
