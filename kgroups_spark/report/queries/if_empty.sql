-- If a group lost its members now: offsets lost at once, and when the rest would expire
-- group_id Group; group_type- Type; state- State; member_count- Members :count; at_once At once :count; offsets In all
-- :count; last_expires_at- All expired by (UTC) :time

SELECT expiry.group_id, groups.group_type, groups.state, groups.member_count,
  count(*) FILTER (WHERE expiry.expires_at_if_empty <= expiry.as_of) AS at_once,
  count(*) AS offsets, min(expiry.expires_at_if_empty) AS first_expires_at,
  max(expiry.expires_at_if_empty) AS last_expires_at
FROM offset_expiry AS expiry
JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
WHERE expiry.expires_at_if_empty IS NOT NULL
  AND (expiry.expires_at IS NULL OR expiry.expires_at_if_empty < expiry.expires_at)
GROUP BY expiry.offsets_partition, expiry.group_id, groups.group_type, groups.state, groups.member_count
ORDER BY at_once DESC, first_expires_at, expiry.group_id
