-- warning by group_members (client_host is null), group_members (client_host == ""), group_members (member_epoch == -2): a member with no live client
--
-- [Member {ghost_id}][Static member {away_id}] of {group_id}[ (and {others:counted other member})][ has {held} and nothing
-- else: no client, no host, no subscription. Its record was written after the member was deleted. It sends no heartbeat, and
-- nobody reads its partitions. The group is not Empty until the coordinator removes this member, so it is not deleted. A
-- change of the coordinator (kafka-leader-election.sh) starts its session timer][ left for a while at {since:time} and has
-- not returned; its session should have ended within a minute. Its partitions are kept for it, and nobody reads them. Start
-- an instance with that name and close it for good, or find out why the coordinator keeps it]

-- A member known only from its assignment (T35), or a static one that left temporarily and is long overdue (T36). A member of
-- a classic group has no epoch; one of a consumer group has one, even if it uses the classic protocol. The coordinator
-- removes a static member that is away (epoch -2: ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH) for its
-- session timeout: 45 s, at most 60 s (defaults of group.consumer.(max.)session.timeout.ms).
WITH ghosts AS (
  SELECT offsets_partition, group_id, member_id, log_offset, member_id AS ghost_id, 'an assignment' AS held, NULL AS away_id,
    NULL AS since
  FROM group_members
  WHERE coalesce(client_host, '') = '' AND NOT coalesce(uses_classic_protocol AND member_epoch IS NULL, false)
  UNION ALL
  SELECT offsets_partition, group_id, member_id, log_offset, NULL, NULL, coalesce(group_instance_id, 'None'), log_timestamp
  FROM away_members LEFT JOIN read USING (offsets_partition)
  WHERE client_host <> '' AND log_timestamp <= coalesce(known_until, $known_until) - INTERVAL 1 HOUR
)
SELECT *, nullif(count(*) OVER of_group - 1, 0) AS others
FROM ghosts
WINDOW of_group AS (PARTITION BY offsets_partition, group_id, held)
QUALIFY row_number() OVER (of_group ORDER BY member_id, log_offset) = 1
