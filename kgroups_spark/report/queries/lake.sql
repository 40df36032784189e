SELECT audit_id, finished_at, as_of, retention_ms, retention_source, release_version, newest_log_timestamp, cluster_id,
  notes,
  (SELECT audit_id FROM findings_audit) AS looked_by,
  (SELECT count(DISTINCT group_id) FROM groups) AS group_count,
  (SELECT count(*) FROM committed_offsets) AS offset_count,
  (SELECT count(*) FROM log_totals) AS partition_count,
  (SELECT CAST(sum(records_in_all) AS BIGINT) FROM log_totals) AS records,
  known_history.begins,
  greatest((SELECT min(hour) FROM group_traffic), known_history.begins) AS traffic_begins,
  (SELECT count(*) FROM known_histories WHERE log = '__transaction_state') > 0 AS has_transaction_state
FROM last_audit
CROSS JOIN known_history
