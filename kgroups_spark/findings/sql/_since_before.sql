-- The same with the ends and the offset of the audit before, if it was a live one, at least ten minutes earlier.
SELECT now.*, before.log_start_offset AS start_before, before.log_end_offset AS end_before, before.seen_at AS seen_before,
  decided.committed_offset AS offset_before
FROM _with_ends AS now
JOIN ends_before AS before ON before.topic = now.topic AND before.partition = now.partition
  AND before.topic_id IS NOT DISTINCT FROM end_id AND before.seen_at <= now.seen_at - INTERVAL 10 MINUTES
JOIN previous_offset_expiry AS decided ON decided.offsets_partition = now.offsets_partition
  AND decided.group_id = now.group_id AND decided.topic = now.topic AND decided.partition = now.partition
