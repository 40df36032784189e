SELECT groups.group_id, groups.group_type, groups.state, groups.state_since, groups.member_count,
  groups.offsets_partition, count(expiry.topic) AS offsets, min(expiry.expires_at) AS expires_at
FROM groups
LEFT JOIN offset_expiry AS expiry
  ON expiry.offsets_partition = groups.offsets_partition AND expiry.group_id = groups.group_id
GROUP BY
  groups.group_id, groups.group_type, groups.state, groups.state_since, groups.member_count, groups.offsets_partition
ORDER BY groups.group_id, groups.offsets_partition
