SELECT group_id, group_type, state, topic, offset_count, last_commit_at, kept_until
FROM topics_no_longer_consumed
ORDER BY last_commit_at NULLS FIRST, group_id, topic
