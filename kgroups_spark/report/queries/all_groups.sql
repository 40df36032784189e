-- All groups
-- group_id Group; group_type Type; state State; state_since- Since (UTC) :time; member_count- Members :count; offsets
-- Offsets :count; expires_at- First expires (UTC) :time; offsets_partition- Offsets partition :count

SELECT groups.group_id, groups.group_type, groups.state, groups.state_since, groups.member_count,
  groups.offsets_partition, count(expiry.topic) AS offsets, min(expiry.expires_at) AS expires_at
FROM groups
LEFT JOIN offset_expiry AS expiry USING (offsets_partition, group_id)
GROUP BY ALL
ORDER BY groups.group_id, groups.offsets_partition
