-- warning by topic_offsets (audit_id == $audit_id): a group has members, and its offsets stay where they are although records arrive
-- of a group the first by log_end_offset - committed_offset DESC, topic, partition
-- A member of {group_id} owns {topic}-{partition}, whose log has grown from {end_before} to {log_end_offset} since
-- {since:time}, and the committed offset is still {committed_offset}[; and so it is with {others:counted other partition}]:
-- {lag:counted record} {lag:waits|wait}. The consumer hangs, has paused the partition, fails at one record again and again,
-- waits for an open transaction of the topic (read_committed), or does not commit. Its own log shows which

SELECT offsets_partition, group_id, topic, partition, committed_offset, end_before, log_end_offset, log_offset,
  seen_before AS since,
  CAST(sum(log_end_offset - committed_offset) OVER (PARTITION BY offsets_partition, group_id) AS BIGINT) AS lag
FROM _since_before
SEMI JOIN (FROM groups WHERE member_count > 0) USING (offsets_partition, group_id)
ANTI JOIN _not_held USING (offsets_partition, group_id, topic, partition)
WHERE committed_offset = offset_before AND log_end_offset > end_before AND log_end_offset > committed_offset
