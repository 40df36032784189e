-- Groups that lose offsets, the soonest first
-- group_id Group; group_type- Type; state- State; offsets Offsets :count; first_expires_at First expires (UTC) :time;
-- last_expires_at- Last (UTC) :time; counted_from- Counted from

SELECT expiry.group_id, groups.group_type, groups.state, count(*) AS offsets,
  min(expiry.expires_at) AS first_expires_at, max(expiry.expires_at) AS last_expires_at,
  min_by(expiry.reason, expiry.expires_at) AS reason,
  min_by(expiry.base, expiry.expires_at) AS base,
  min_by(expiry.base_timestamp, expiry.expires_at) AS base_timestamp
FROM offset_expiry AS expiry
LEFT JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
WHERE expiry.expires_at IS NOT NULL
GROUP BY expiry.offsets_partition, expiry.group_id, groups.group_type, groups.state
ORDER BY first_expires_at, expiry.group_id
