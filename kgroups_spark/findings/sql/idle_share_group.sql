-- notice by groups (group_type == "share" and state == "Empty"): an empty share group, which never expires
--
-- Share group {group_id} has had no member since {since:time}, longer than the retention of {retention_ms:duration} after
-- which other groups expire. Share groups never expire. If it is no longer needed: kafka-share-groups.sh
-- --bootstrap-server HOST:PORT --delete --group {group_id:word}

-- Any other group would have expired (T55).
SELECT offsets_partition, group_id, log_offset, state_since AS since
FROM groups LEFT JOIN read USING (offsets_partition)
WHERE group_type = 'share' AND state = 'Empty'
  AND state_since <= coalesce(known_until, $known_until) - to_milliseconds($retention_ms)
