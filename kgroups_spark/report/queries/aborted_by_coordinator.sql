SELECT log_timestamp, transactional_id, event, producer_id, start_timestamp, timeout_ms
FROM state_events
WHERE event IN ('transaction_timed_out', 'producer_fenced')
  AND log_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND log_timestamp <= (SELECT believed_until FROM last_audit)
ORDER BY log_timestamp DESC, transactional_id
