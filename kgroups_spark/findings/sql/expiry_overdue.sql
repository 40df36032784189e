-- warning by offset_expiry (decision == "expire" and expires_at <= $known_until): offsets that should have expired
--
-- {offsets:counted committed offset} of {group_id} on {where} should have expired from {since:time} on, and
-- {offsets:is|are} still there: the coordinator runs no clean-up, could not load the partition, or the brokers'
-- offsets.retention.minutes is not the {retention_ms:duration} that this audit used (kgroups audit --retention).[ {waits}]

-- Overdue for six checks of offsets.retention.check.interval.ms (default 600,000): no broker is that late.
SELECT offsets_partition, group_id,
  CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END AS topic,
  coalesce(CASE WHEN count(DISTINCT topic) = 1 THEN min(topic) END, format('{:,} topics', count(DISTINCT topic))) AS where,
  min(expires_at) AS since, count(*) AS offsets,
  CASE
    WHEN (offsets_partition, group_id) IN (SELECT (offsets_partition, group_id) FROM pending_offsets)
    THEN 'The group has offsets in open transactions.'
  END AS waits
FROM offset_expiry LEFT JOIN read USING (offsets_partition), (
  SELECT max(TRY_CAST(value AS BIGINT)) AS checked_every_ms
  FROM cluster_facts WHERE audit_id = $audit_id AND name = 'offsets.retention.check.interval.ms'
)
WHERE decision = 'expire' AND expires_at <= coalesce(known_until, $known_until) - to_milliseconds(6 * coalesce(checked_every_ms, 600000))
GROUP BY offsets_partition, group_id
