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
  SELECT
    offsets_partition AS span_partition,
    group_id AS span_group,
    log_offset AS span_begins,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS span_ends,
    state,
    member_count
  FROM group_versions
)
SELECT
  removed.offsets_partition,
  removed.group_id,
  removed.topic,
  removed.partition,
  removed.offset_before AS committed_offset,
  removed.event_timestamp AS removed_at,
  removed.cause,
  spans.state,
  spans.member_count,
  removed.log_offset
FROM all_events AS removed
JOIN spans
  ON spans.span_partition = removed.offsets_partition
  AND spans.span_group = removed.group_id
  AND spans.span_begins < removed.log_offset
  AND (spans.span_ends IS NULL OR spans.span_ends >= removed.log_offset)
WHERE removed.event = 'offset_removed' AND removed.cause IN ('expired', 'probably_expired') AND spans.member_count > 0
