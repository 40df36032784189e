-- warning by offset_expiry (reason == "subscribed" and expires_at_if_empty <= $as_of): offsets lost as soon as the last member leaves
--
-- {offsets:counted committed offset} of {group_id} on {where} {offsets:was|were} last committed more than the retention
-- of {retention_ms:duration} ago[, the oldest at {since:time}]. Its members keep them. When the last one leaves, they
-- expire at the next check: unlike a classic group, this one has no grace period. Before a shutdown, let it commit every
-- partition once, keep a copy (kgroups export-offsets {group_id:option}), or raise offsets.retention.minutes

-- In consumer and streams groups the retention counts from the commit, not from when the group became Empty (T53).
SELECT offsets_partition, group_id,
  CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END AS topic,
  coalesce(CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END, format('{:,} topics', count(DISTINCT topic))) AS where,
  min(base_timestamp) AS since, count(*) AS offsets
FROM offset_expiry
WHERE reason = 'subscribed' AND expires_at_if_empty <= $as_of
GROUP BY offsets_partition, group_id
