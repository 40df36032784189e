-- Committed offsets that expired while their group had members, which KIP-211 was made to prevent: a consumer that comes back to the partition is reset
--
-- offsets_partition, group_id, topic, partition of committed_offsets
-- committed_offset: The offset that was lost
-- removed_at: Log time of its removal; null: none
-- cause: expired or probably_expired, as in all_events
-- state: State of the group then
-- member_count: Its members then
-- log_offset: The record that removed it

WITH spans AS (
  SELECT offsets_partition, group_id, log_offset AS span_begins, state, member_count,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS span_ends
  FROM group_versions
)
SELECT offsets_partition, group_id, topic, partition, offset_before AS committed_offset, event_timestamp AS removed_at,
  cause, state, member_count, log_offset
FROM all_events
JOIN spans USING (offsets_partition, group_id)
WHERE event = 'offset_removed' AND cause IN ('expired', 'probably_expired') AND member_count > 0
  AND span_begins < log_offset AND (span_ends IS NULL OR span_ends >= log_offset)
