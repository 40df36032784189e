-- Transactions that the coordinator aborted, the newest first
-- log_timestamp When (UTC) :time; transactional_id Transactional id; why Why; producer_id- Producer id;
-- start_timestamp- Began (UTC) :time; timeout- Timeout

SELECT log_timestamp, transactional_id, event, producer_id, start_timestamp, timeout_ms
FROM state_events
WHERE event IN ('transaction_timed_out', 'producer_fenced')
  AND log_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '30' DAY
  AND log_timestamp <= (SELECT believed_until FROM last_audit)
ORDER BY log_timestamp DESC, transactional_id
