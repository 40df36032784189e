-- Load of each broker as group coordinator: what the offsets partitions hold that it leads
--
-- broker: Broker that led the offsets partitions when the newest live audit asked; null: partitions without a known leader
-- address: Its host:port; null: unknown
-- offsets_partitions BIGINT: Offsets partitions that it leads (a known leader), or that hold something
-- groups BIGINT: Groups that exist
-- members BIGINT: Their members
-- committed_offsets BIGINT: Committed offsets
-- commits BIGINT: Offset commits in the 24 hours of log time before as_of of the last audit
-- bytes BIGINT: Bytes of the keys and values of all records of groups in these hours

WITH leaders AS (
  SELECT CAST(name AS INTEGER) AS offsets_partition, broker, value AS address
  FROM _cluster
  WHERE kind = 'leader'
),
counted AS (
  SELECT offsets_partition, 0 AS groups, 0 AS members, 0 AS committed_offsets, 0 AS commits, 0 AS bytes FROM leaders
  UNION ALL
  SELECT offsets_partition, 1, 0, 0, 0, 0 FROM groups
  UNION ALL
  SELECT offsets_partition, 0, 1, 0, 0, 0 FROM group_members
  UNION ALL
  SELECT offsets_partition, 0, 0, 1, 0, 0 FROM committed_offsets
  UNION ALL
  SELECT traffic.offsets_partition, 0, 0, 0, traffic.commits, traffic.bytes
  FROM group_traffic AS traffic
  CROSS JOIN last_audit
  WHERE traffic.hour > last_audit.as_of - INTERVAL 24 HOURS AND traffic.hour <= last_audit.as_of
)
SELECT leaders.broker, leaders.address,
  CAST(count(DISTINCT offsets_partition) AS BIGINT) AS offsets_partitions,
  CAST(sum(counted.groups) AS BIGINT) AS groups,
  CAST(sum(counted.members) AS BIGINT) AS members,
  CAST(sum(counted.committed_offsets) AS BIGINT) AS committed_offsets,
  CAST(sum(counted.commits) AS BIGINT) AS commits,
  CAST(sum(counted.bytes) AS BIGINT) AS bytes
FROM counted
LEFT JOIN leaders USING (offsets_partition)
GROUP BY leaders.broker, leaders.address
