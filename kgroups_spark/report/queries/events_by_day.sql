SELECT date_trunc('day', event_timestamp) AS day, event, cause, count(*) AS events
FROM all_events
WHERE event IN ('offset_rewound', 'offset_restarted', 'offset_skipped', 'offset_removed')
  AND (event = 'offset_removed' OR least(offset_before, offset_after) >= 0)
  AND event_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND event_timestamp <= (SELECT believed_until FROM last_audit)
GROUP BY date_trunc('day', event_timestamp), event, cause
ORDER BY day, event, cause
