-- Session timeout and heartbeat interval of every member
--
-- offsets_partition, group_id, member_id of group_members
-- session_timeout_ms BIGINT: A member without a heartbeat for so long is removed; null: unknown
-- heartbeat_interval_ms BIGINT: Interval that the coordinator prescribes; null: unknown, or the client's own (classic protocol)

SELECT members.offsets_partition, members.group_id, members.member_id,
  coalesce(members.session_timeout_ms, TRY_CAST(session.value AS BIGINT)) AS session_timeout_ms,
  CASE WHEN members.session_timeout_ms IS NULL THEN TRY_CAST(heartbeat.value AS BIGINT) END AS heartbeat_interval_ms
FROM group_members AS members
LEFT JOIN group_settings AS session
  ON session.offsets_partition = members.offsets_partition AND session.group_id = members.group_id
  AND session.name = session.group_type || '.session.timeout.ms'
LEFT JOIN group_settings AS heartbeat
  ON heartbeat.offsets_partition = members.offsets_partition AND heartbeat.group_id = members.group_id
  AND heartbeat.name = heartbeat.group_type || '.heartbeat.interval.ms'
