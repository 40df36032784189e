-- The last finished audit, which every other view and table reflects; no row before the first
--
-- columns of audits but status, owner, partitions, replaced_ranges, newest_audits, removed_up_to
-- audit_id: Number of the audit
-- finished_at: When it finished
-- as_of: Time at which expiry was judged
-- retention_ms: Retention that was used
-- retention_source: option, broker or default
-- release_version: Kafka release whose rules were used
-- rules_version: Version of these rules
-- state_format: Version of the saved state's form
-- source: segments, kafka or tables (a rebuild)
-- software_version: Version of kgroups-spark; null: unknown
-- rows_added: Rows added, by table
-- quarantined: Rows of quarantine, by reason
-- record_counts: Records read, by type and version; version null: tombstones
-- notes: Notes for people
-- believed_until: Later log times are ignored (a record may be stamped 2040): newest_log_timestamp, or a day after started_at if that is later

SELECT *, greatest(newest_log_timestamp, started_at + INTERVAL '24' HOUR) AS believed_until
FROM audits
WHERE status = 'finished' AND audit_id = (SELECT max(audit_id) FROM audits WHERE status = 'finished')
