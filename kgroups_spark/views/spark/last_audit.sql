CREATE OR REPLACE TEMPORARY VIEW last_audit (
  audit_id COMMENT 'Number of the audit',
  started_at COMMENT 'When it claimed its number',
  finished_at COMMENT 'When it finished',
  as_of COMMENT 'Time at which expiry was judged',
  retention_ms COMMENT 'Retention that was used',
  retention_source COMMENT 'option, broker or default',
  release_version COMMENT 'Kafka release whose rules were used',
  rules_version COMMENT 'Version of these rules',
  state_format COMMENT 'Version of the saved state''s form',
  source COMMENT 'segments, kafka or tables (a rebuild)',
  cluster_id COMMENT 'Cluster id of the log; null: unknown',
  software_version COMMENT 'Version of kgroups-spark; null: unknown',
  lake_version COMMENT 'Version of the lake''s layout',
  newest_log_timestamp COMMENT 'Newest time in the logs so far; null: none',
  rows_added COMMENT 'Rows added, by table',
  quarantined COMMENT 'Rows of quarantine, by reason',
  record_counts COMMENT 'Records read, by type and version; version null: tombstones',
  notes COMMENT 'What a person should know',
  believed_until COMMENT 'Log times behind it are believed nowhere (a record may be stamped 2040): newest_log_timestamp, or a day after started_at if that is later'
)
COMMENT 'The last finished audit: what every other view and table is as of; no row before the first'
AS
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
WHERE status = 'finished' AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
