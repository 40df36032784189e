-- Topics to which no member of the group subscribes any more: their lag is none
-- group_id Group; topic Topic; offset_count Offsets :count; last_commit_at- Last commit (UTC) :time; kept_until- Kept
-- until (UTC) :time

SELECT group_id, group_type, state, topic, offset_count, last_commit_at, kept_until
FROM topics_no_longer_consumed
ORDER BY last_commit_at NULLS FIRST, group_id, topic
