SELECT event_timestamp, group_id, value_before, value_after
FROM group_events
WHERE event = 'group_type_changed'
ORDER BY event_timestamp DESC, group_id
