-- Classic groups, and whether consumers of the protocol of KIP-848 can join them, by the rules of Kafka 4.0 and newer (GroupMetadataManager.validateOnlineUpgrade)
--
-- offsets_partition, group_id, state, member_count, protocol_type, protocol of groups
-- converts: online: while it has members, one after another; when empty: only without members, its offsets stay; no: never
-- reason: Why not online, the first that applies: protocol_type (Connect and others have no consumers of KIP-848); size (more members than group.consumer.max.size); no_members (nobody needs to be converted); policy (group.consumer.migration.policy); unreadable_subscription (or assignment); user_data (in an assignment: a custom assignor, as Kafka Streams has one); null: online
-- clients: client.id of its members, in order
-- policy: group.consumer.migration.policy of the brokers; null: not known, or they differ; then the default is assumed, which allows it
-- offsets_at_risk: Offsets committed more than the retention ago. As a classic group it keeps them for a whole retention after it has become Empty; as a consumer group it loses them as soon as it is Empty

WITH settings AS (
  SELECT name, lower(max(value)) AS value
  FROM _cluster
  WHERE kind = 'broker_config' AND name IN ('group.consumer.migration.policy', 'group.consumer.max.size')
  GROUP BY name
  HAVING count(DISTINCT value) = 1
),
limits AS (
  SELECT
    max(CASE WHEN name = 'group.consumer.migration.policy' THEN value END) AS policy,
    max(CASE WHEN name = 'group.consumer.max.size' THEN TRY_CAST(value AS BIGINT) END) AS max_size
  FROM settings
),
members AS (
  SELECT offsets_partition, group_id,
    unnest(from_json(
      json_extract(records.value, '$.members'),
      '[{"clientId": "VARCHAR", "subscriptionRaw": "VARCHAR", "assignmentRaw": "VARCHAR", "assignment": {"userData": "VARCHAR"}}]'
    )) AS member
  FROM group_records AS records
  JOIN groups USING (offsets_partition, group_id, log_offset)
  WHERE records.record_type = 2 AND groups.group_type = 'classic'
),
of_members AS (
  SELECT offsets_partition, group_id,
    list_sort(list(DISTINCT member."clientId")) AS clients,
    -- A member that has never synced has an empty assignment.
    bool_or(length(member."subscriptionRaw") > 0 OR length(member."assignmentRaw") > 0) AS is_unreadable,
    bool_or(length(member."assignment"."userData") > 0) AS has_user_data
  FROM members
  GROUP BY offsets_partition, group_id
),
old_offsets AS (
  SELECT offsets_partition, group_id, count(*) AS offsets
  FROM committed_offsets
  WHERE epoch_ms(commit_timestamp) <= (SELECT max(epoch_ms(as_of) - retention_ms) FROM last_audit)
  GROUP BY offsets_partition, group_id
),
judged AS (
  SELECT
    offsets_partition, group_id, state, member_count, protocol_type, protocol, clients,
    limits.policy,
    coalesce(old_offsets.offsets, 0) AS offsets_at_risk,
    CASE
      WHEN protocol_type <> 'consumer' THEN 'protocol_type'
      WHEN member_count > max_size THEN 'size'
      WHEN member_count = 0 THEN 'no_members'
      WHEN limits.policy NOT IN ('bidirectional', 'upgrade') THEN 'policy'
      WHEN is_unreadable THEN 'unreadable_subscription'
      WHEN has_user_data THEN 'user_data'
    END AS reason
  FROM groups
  CROSS JOIN limits
  LEFT JOIN of_members USING (offsets_partition, group_id)
  LEFT JOIN old_offsets USING (offsets_partition, group_id)
  WHERE group_type = 'classic'
)
SELECT *,
  CASE
    WHEN reason IS NULL THEN 'online'
    WHEN reason IN ('protocol_type', 'size') THEN 'no'
    ELSE 'when empty'
  END AS converts
FROM judged
