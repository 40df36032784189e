CREATE OR REPLACE VIEW last_audit AS
SELECT
  audit_id,
  started_at,
  finished_at,
  as_of,
  retention_ms,
  retention_source,
  release_version,
  rules_version,
  state_format,
  source,
  cluster_id,
  software_version,
  lake_version,
  newest_log_timestamp,
  rows_added,
  quarantined,
  record_counts,
  notes,
  greatest(newest_log_timestamp, started_at + INTERVAL '24' HOUR) AS believed_until
FROM audits
WHERE status = 'finished' AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished');

COMMENT ON VIEW last_audit IS 'The last finished audit: what every other view and table is as of; no row before the first';
COMMENT ON COLUMN last_audit.audit_id IS 'Number of the audit';
COMMENT ON COLUMN last_audit.started_at IS 'When it claimed its number';
COMMENT ON COLUMN last_audit.finished_at IS 'When it finished';
COMMENT ON COLUMN last_audit.as_of IS 'Time at which expiry was judged';
COMMENT ON COLUMN last_audit.retention_ms IS 'Retention that was used';
COMMENT ON COLUMN last_audit.retention_source IS 'option, broker or default';
COMMENT ON COLUMN last_audit.release_version IS 'Kafka release whose rules were used';
COMMENT ON COLUMN last_audit.rules_version IS 'Version of these rules';
COMMENT ON COLUMN last_audit.state_format IS 'Version of the saved state''s form';
COMMENT ON COLUMN last_audit.source IS 'segments, kafka or tables (a rebuild)';
COMMENT ON COLUMN last_audit.cluster_id IS 'Cluster id of the log; null: unknown';
COMMENT ON COLUMN last_audit.software_version IS 'Version of kgroups-spark; null: unknown';
COMMENT ON COLUMN last_audit.lake_version IS 'Version of the lake''s layout';
COMMENT ON COLUMN last_audit.newest_log_timestamp IS 'Newest time in the logs so far; null: none';
COMMENT ON COLUMN last_audit.rows_added IS 'Rows added, by table';
COMMENT ON COLUMN last_audit.quarantined IS 'Rows of quarantine, by reason';
COMMENT ON COLUMN last_audit.record_counts IS 'Records read, by type and version; version null: tombstones';
COMMENT ON COLUMN last_audit.notes IS 'What a person should know';
COMMENT ON COLUMN last_audit.believed_until IS 'Log times behind it are believed nowhere (a record may be stamped 2040): newest_log_timestamp, or a day after started_at if that is later';
