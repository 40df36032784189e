-- warning by cluster_facts (audit_id == $audit_id): a group has nearly as many members as it may have
--
-- {group_id} has {member_count:counted member}, and {name} of the brokers allows {most:number}. The next ones are refused with
-- GROUP_MAX_SIZE_REACHED, also members that lose their session and come back. Raise the limit, or split the group

-- From nine tenths of the smallest limit that a broker reports.
SELECT offsets_partition, groups.group_id, member_count, name, min(TRY_CAST(value AS BIGINT)) AS most
FROM groups
JOIN cluster_facts AS facts ON name =
  CASE group_type WHEN 'classic' THEN 'group.max.size' ELSE 'group.' || group_type || '.max.size' END
WHERE facts.audit_id = $audit_id AND kind = 'broker_config'
GROUP BY offsets_partition, groups.group_id, member_count, name
HAVING member_count * 10 >= most * 9
