-- Groups that changed their type, the newest first
-- event_timestamp When (UTC) :time; group_id Group; value_before From; value_after To

SELECT event_timestamp, group_id, value_before, value_after
FROM group_events
WHERE event = 'group_type_changed'
ORDER BY event_timestamp DESC, group_id
