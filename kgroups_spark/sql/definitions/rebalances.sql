-- Rebalances of every group: each new generation (classic) or group epoch (consumer, share, streams). Its cause and the members that joined or left follow from the changes in the log since the previous one. Those in history that kgroups maintain --keep has reduced are gone, and the causes of the first ones after it are unknown
--
-- offsets_partition, group_id of committed_offsets
-- group_type: classic, consumer, share or streams, from this rebalance on
-- number: The generation that it led to (classic), or the group epoch that began it; a classic generation that never reached an assignment left no record
-- cause: The change since the previous rebalance, the first that applies: group_type_changed (conversion, or created again as another type); members_changed (some joined and some left), member_joined, member_left (leaving and a session timeout look the same); subscription_changed; assignor_changed (classic: the protocol); member_replaced (a static member with a new id, no other change); topology_changed (streams); topic_metadata_changed (the topics and partitions that match the subscriptions); share_partitions_initialized (share); partitions_revoked (classic, cooperative: partitions released in the previous one get new owners); unknown (not in the log, or the cleaner removed the earlier records)
-- rebalance_timestamp: Log time of that record, for every group type: the epoch was raised, or (classic) the leader's assignment was logged; null: the record has no time
-- started_timestamp: When the epoch was raised; null: classic, as the log does not show when a rebalance began
-- joined_timestamp: Classic: when all members had joined and the coordinator asked the leader for the assignment; null: not classic, no members, or not logged (before 2.1)
-- assigned_timestamp: Not classic: when the new target assignment was complete; null: classic, none was made, or the record has no time
-- finished_timestamp: Classic: when the leader's assignment was logged; else when the last member had reached the epoch (at once without members); null: outcome is not finished, or the record has no time
-- duration_ms: From started_timestamp to finished_timestamp; null: one of them is, or the first is later (the clock was set back)
-- outcome: finished; superseded: the next one began before all members had reached this epoch; removed: the group was removed or converted first; running: none of these yet
-- slowest_member_id: Not classic: the last member to reach the epoch; null: classic, no members, or not finished
-- members_before: Members after the previous rebalance, 0 for a new group; null: not in the log
-- members_after: Members when the epoch was raised, or in the generation's record
-- joined_member_ids: Members that joined since the previous rebalance; some may have left; null: not in the log. A static member under another id neither joined nor left
-- left_member_ids: Members that left since the previous rebalance; null: not in the log
-- changed_topics: Cause topic_metadata_changed: the topics with partitions that no member had before, or that none has now, by the members' new (target) assignments; an id if the name is unknown; null: another cause, a streams group, or no such partition (nothing was assigned, or only racks changed)
-- log_offset: Record that raised the epoch or holds the generation
-- finished_log_offset: Record that finished it; null: it was not finished

-- Records that set a generation or an epoch: GroupMetadata, and the metadata of consumer, share and streams groups.
WITH epoch_records AS (
  SELECT offsets_partition, group_id, log_offset FROM group_records WHERE record_type IN (2, 3, 11, 17)
),
versions AS (
  SELECT offsets_partition, group_id, log_offset, log_timestamp, is_removed, group_type,
    coalesce(generation, group_epoch) AS number,
    assignment_epoch, protocol, metadata_hash, current_state_timestamp, member_count,
    lag(is_removed) OVER its AS was_removed, lag(is_simple) OVER its AS was_simple,
    lag(group_type) OVER its AS type_before, lag(log_timestamp) OVER its AS timestamp_before, reduced_to
  FROM group_versions
  LEFT JOIN _reduced AS reduced ON reduced.log = '__consumer_offsets' AND reduced.partition = offsets_partition
  WINDOW its AS (PARTITION BY offsets_partition, group_id ORDER BY log_offset)
),
-- A group starts again after its removal, and as a group of another type. Tombstones and first records of a conversion
-- are one write of the coordinator, so that they have one time.
lives AS (
  SELECT *,
    sum(CASE WHEN NOT is_removed AND (was_removed OR type_before <> group_type) THEN 1 ELSE 0 END) OVER (
      PARTITION BY offsets_partition, group_id ORDER BY log_offset
    ) AS life,
    coalesce(
      NOT is_removed AND NOT was_simple AND type_before <> group_type
        AND (NOT was_removed OR timestamp_before = log_timestamp),
      FALSE
    ) AS is_conversion
  FROM versions
),
epochs AS (
  SELECT lives.*,
    bool_or(lives.is_conversion) OVER (PARTITION BY lives.offsets_partition, lives.group_id, lives.life) AS was_converted,
    epoch_records.log_offset IS NOT NULL AND NOT lives.is_removed AS is_epoch
  FROM lives
  LEFT JOIN epoch_records USING (offsets_partition, group_id, log_offset)
),
steps AS (
  SELECT *, lag(number) OVER its AS number_before, lag(life) OVER its AS life_before,
    lag(member_count) OVER its AS member_count_before
  FROM epochs
  WINDOW its AS (PARTITION BY offsets_partition, group_id, is_epoch ORDER BY log_offset)
),
-- A conversion of a group with members takes their generation over as its epoch, and the other way round: nothing is
-- assigned again before the next one. Nor is it when a static member returns with another id.
started AS (
  SELECT *,
    is_epoch AND number > 0 AND (
      number_before IS NULL
      OR (life = life_before AND number <> number_before)
      OR (life <> life_before AND NOT (was_converted AND number = number_before AND member_count_before > 0))
    ) AS is_rebalance,
    is_epoch OR is_removed AS is_border
  FROM steps
),
marks AS (
  SELECT *, lag(life) OVER its AS previous_life, lag(log_offset) OVER its AS previous_log_offset,
    lag(member_count) OVER its AS previous_member_count, lag(metadata_hash) OVER its AS previous_metadata_hash,
    lag(protocol) OVER its AS previous_protocol,
    lead(is_removed) OVER (PARTITION BY offsets_partition, group_id, is_border ORDER BY log_offset) AS ends_by_removal
  FROM started
  WINDOW its AS (PARTITION BY offsets_partition, group_id, is_rebalance ORDER BY log_offset)
),
members AS (
  SELECT offsets_partition, group_id, log_offset, log_timestamp, member_id,
    struct_pack(
      is_there := NOT is_removed, group_instance_id := group_instance_id, subscribed_topics := subscribed_topics,
      subscribed_regex := subscribed_regex, server_assignor := server_assignor,
      reached_epoch := CASE WHEN member_state = 'STABLE' THEN member_epoch END,
      -- For classic members, which name a partition by its topic. Partitions without an owner reveal the protocol.
      assigned := CASE
        WHEN member_state IS NULL
          THEN list_transform(assigned_partitions, lambda each: concat(each.topic, ':', each.partition))
      END,
      target := list_transform(target_partitions, lambda each: concat(coalesce(each.topic_id, each.topic), ':', each.partition))
    ) AS now
  FROM group_member_versions
),
-- All changes of a group: its own, its members', and those of its topics.
events AS (
  SELECT offsets_partition, group_id, log_offset, log_timestamp,
    struct_pack(
      log_offset := log_offset, is_rebalance := is_rebalance, is_border := is_border,
      is_assigned := coalesce(NOT is_removed AND assignment_epoch = number, FALSE),
      log_timestamp := log_timestamp, group_type := group_type, number := number, member_count := member_count,
      joined_timestamp := CASE WHEN group_type = 'classic' AND member_count > 0 THEN current_state_timestamp END,
      ends_by_removal := ends_by_removal,
      has_changed_type := was_converted AND previous_life <> life,
      -- A group's first generation is 1, or the first after its placeholder of generation 0 (4.3); its first epoch 1 or
      -- (4.3) 2. Before any other number, the cleaner has removed records.
      -- Nor are all changes known since a rebalance in reduced history.
      is_known := (
          previous_life IS NOT NULL OR life > 0 OR coalesce(number_before, -1) = 0
          OR number <= CASE WHEN group_type = 'classic' THEN 1 ELSE 2 END
        )
        AND NOT coalesce((previous_life = life OR was_converted) AND previous_log_offset < reduced_to, FALSE),
      member_count_before := CASE
        WHEN previous_life = life OR (was_converted AND previous_life IS NOT NULL) THEN previous_member_count
        ELSE 0
      END,
      has_other_hash := previous_life IS NOT NULL AND metadata_hash <> previous_metadata_hash,
      has_other_protocol := previous_life IS NOT NULL AND protocol <> previous_protocol,
      is_reduced := coalesce(log_offset < reduced_to, FALSE)
    ) AS mark,
    NULL AS member_id, NULL AS before, NULL AS now, NULL AS record_type
  FROM marks
  UNION ALL
  SELECT offsets_partition, group_id, log_offset, log_timestamp, NULL, member_id,
    lag(now) OVER (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset),
    now, NULL
  FROM members
  UNION ALL
  SELECT offsets_partition, group_id, log_offset, log_timestamp, NULL, NULL, NULL, NULL, record_type
  FROM group_records
  WHERE record_type IN (4, 9, 15, 23) AND value_version IS NOT NULL
),
-- Changes before a rebalance caused it (a member's record precedes the new epoch); later ones carry it out.
placed AS (
  SELECT *,
    -- A static member stays the same member under another id.
    coalesce('static ' || coalesce(now.group_instance_id, before.group_instance_id), 'member ' || member_id) AS identity,
    min(CASE WHEN mark.is_rebalance THEN log_offset END) OVER (
      PARTITION BY offsets_partition, group_id ORDER BY log_offset RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) AS leads_to,
    max(CASE WHEN mark.is_border THEN mark END) OVER (
      PARTITION BY offsets_partition, group_id ORDER BY log_offset RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS carries_out
  FROM events
),
-- Members that have not reached the new epoch: at first all members, then by their records.
reaching AS (
  SELECT *,
    CASE WHEN now.is_there AND now.reached_epoch IS DISTINCT FROM carries_out.number THEN 1 ELSE 0 END AS is_behind,
    now.is_there AND carries_out.is_rebalance AND carries_out.group_type <> 'classic' AS may_finish
  FROM placed
),
not_yet AS (
  SELECT *,
    CASE
      WHEN now IS NULL THEN 0
      ELSE is_behind - coalesce(
        lag(is_behind) OVER (
          PARTITION BY offsets_partition, group_id, carries_out.log_offset, member_id ORDER BY log_offset
        ),
        CASE WHEN before.is_there THEN 1 ELSE 0 END
      )
    END AS more_behind
  FROM reaching
),
-- It does not end when the last such member leaves: that starts the next rebalance, or a member replaces it.
carried AS (
  SELECT *,
    may_finish AND carries_out.member_count + sum(more_behind) OVER (
      PARTITION BY offsets_partition, group_id, carries_out.log_offset ORDER BY log_offset
    ) = 0 AS is_finished,
    now IS NOT NULL AND NOT coalesce(bool_or(mark.is_assigned) OVER (
      PARTITION BY offsets_partition, group_id, carries_out.log_offset ORDER BY log_offset
    ), FALSE) AS may_be_target
  FROM not_yet
),
-- For each rebalance and member, the member's state after the previous rebalance and when this one began.
by_member AS (
  SELECT offsets_partition, group_id,
    CASE WHEN is_cause THEN leads_to ELSE carries_out.log_offset END AS log_offset,
    identity,
    max(mark) FILTER (WHERE is_cause AND mark.is_rebalance) AS mark,
    -- If two members have a record in common, the one that was there before it, and the one that is there after it.
    min(
      struct_pack(
        log_offset := carried.log_offset,
        is_new := NOT coalesce(before.is_there, FALSE),
        it := before, member_id := member_id
      )
    ) FILTER (WHERE is_cause AND now IS NOT NULL) AS earliest,
    max(struct_pack(log_offset := carried.log_offset, is_there := now.is_there, it := now, member_id := member_id))
      FILTER (WHERE is_cause AND now IS NOT NULL) AS latest,
    bool_or(is_cause AND record_type = 23) AS has_topology,
    bool_or(is_cause AND record_type = 15) AS has_share_partitions,
    bool_or(is_cause AND record_type IN (4, 9)) AS has_partitions,
    min(struct_pack(log_offset := carried.log_offset, target := coalesce(before.target, [])))
      FILTER (WHERE NOT is_cause AND may_be_target) AS target_before,
    max(struct_pack(log_offset := carried.log_offset, target := coalesce(now.target, [])))
      FILTER (WHERE NOT is_cause AND may_be_target) AS target_now,
    min(struct_pack(log_offset := carried.log_offset, log_timestamp := log_timestamp))
      FILTER (WHERE NOT is_cause AND mark.is_assigned) AS assigned,
    min(struct_pack(log_offset := carried.log_offset, log_timestamp := log_timestamp, member_id := member_id))
      FILTER (WHERE NOT is_cause AND is_finished) AS finished
  FROM carried
  CROSS JOIN (VALUES (TRUE), (FALSE)) AS sides (is_cause)
  WHERE CASE WHEN is_cause THEN leads_to IS NOT NULL ELSE mark.is_assigned OR is_finished OR may_be_target END
  GROUP BY offsets_partition, group_id, CASE WHEN is_cause THEN leads_to ELSE carries_out.log_offset END, identity
),
compared AS (
  SELECT *,
    latest IS NOT NULL AND NOT coalesce(earliest.it.is_there, FALSE) AS has_joined,
    latest IS NOT NULL AND NOT latest.it.is_there AS has_left,
    coalesce(earliest.it.is_there, FALSE) AND latest.it.is_there AS has_stayed,
    CASE WHEN earliest.it.is_there THEN coalesce(earliest.it.assigned, []) ELSE [] END AS assigned_before,
    CASE WHEN latest.it.is_there THEN coalesce(latest.it.assigned, []) ELSE [] END AS assigned_now
  FROM by_member
),
by_rebalance AS (
  SELECT offsets_partition, group_id, log_offset, max(mark) AS mark,
    coalesce(list_sort(list(latest.member_id) FILTER (WHERE has_joined)), []) AS joined,
    -- A member that joined and left in between is in both.
    coalesce(list_sort(list(latest.member_id) FILTER (WHERE has_left)), []) AS gone,
    bool_or(has_stayed AND latest.member_id <> earliest.member_id) AS has_replaced,
    bool_or(
      has_stayed AND (
        latest.it.subscribed_topics IS DISTINCT FROM earliest.it.subscribed_topics
        OR latest.it.subscribed_regex IS DISTINCT FROM earliest.it.subscribed_regex
      )
    ) AS has_other_subscription,
    bool_or(has_stayed AND latest.it.server_assignor IS DISTINCT FROM earliest.it.server_assignor) AS has_other_assignor,
    flatten(list(list_filter(assigned_now, lambda each: NOT list_contains(assigned_before, each)))) AS gained,
    flatten(list(list_filter(assigned_before, lambda each: NOT list_contains(assigned_now, each)))) AS lost,
    flatten(list(coalesce(target_before.target, []))) AS targets_before,
    flatten(list(coalesce(target_now.target, []))) AS targets_now,
    bool_or(has_topology) AS has_topology, bool_or(has_share_partitions) AS has_share_partitions,
    bool_or(has_partitions) AS has_partitions, min(assigned) AS assigned, min(finished) AS finished
  FROM compared
  GROUP BY offsets_partition, group_id, log_offset
  HAVING max(mark) IS NOT NULL
),
-- For the whole group: the partitions that no member had before, and those that none has now.
counted AS (
  SELECT *,
    list_filter(gained, lambda each: NOT list_contains(lost, each)) AS handed_out,
    list_filter(lost, lambda each: NOT list_contains(gained, each)) AS given_up,
    list_concat(
      list_filter(targets_now, lambda each: NOT list_contains(targets_before, each)),
      list_filter(targets_before, lambda each: NOT list_contains(targets_now, each))
    ) AS other_targets,
    mark.group_type = 'classic' OR mark.member_count = 0 AS ends_at_once
  FROM by_rebalance
),
judged AS (
  SELECT *,
    lag(given_up) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS given_up_before
  FROM counted
),
explained AS (
  SELECT *,
    CASE
      WHEN NOT mark.is_known THEN 'unknown'
      WHEN mark.has_changed_type THEN 'group_type_changed'
      WHEN array_length(joined) > 0 AND array_length(gone) > 0 THEN 'members_changed'
      WHEN array_length(joined) > 0 THEN 'member_joined'
      WHEN array_length(gone) > 0 THEN 'member_left'
      WHEN has_other_subscription THEN 'subscription_changed'
      WHEN has_other_assignor OR mark.has_other_protocol THEN 'assignor_changed'
      WHEN has_replaced THEN 'member_replaced'
      WHEN has_topology THEN 'topology_changed'
      WHEN has_partitions OR mark.has_other_hash THEN 'topic_metadata_changed'
      WHEN has_share_partitions THEN 'share_partitions_initialized'
      WHEN array_length(handed_out) > 0
        AND array_length(list_filter(handed_out, lambda each: NOT list_contains(coalesce(given_up_before, []), each))) = 0
        THEN 'partitions_revoked'
      WHEN array_length(handed_out) > 0 OR array_length(given_up) > 0 THEN 'topic_metadata_changed'
      ELSE 'unknown'
    END AS cause,
    list_transform(
      list_concat(handed_out, given_up, other_targets), lambda each: regexp_replace(each, ':[0-9]+$', '')
    ) AS changed
  FROM judged
)
SELECT offsets_partition, group_id, mark.group_type, mark.number, cause,
  mark.log_timestamp AS rebalance_timestamp,
  CASE WHEN mark.group_type <> 'classic' THEN mark.log_timestamp END AS started_timestamp,
  mark.joined_timestamp, assigned.log_timestamp AS assigned_timestamp,
  CASE WHEN ends_at_once THEN mark.log_timestamp ELSE finished.log_timestamp END AS finished_timestamp,
  CASE
    WHEN mark.group_type = 'classic' THEN NULL
    WHEN ends_at_once THEN 0
    ELSE nullif(greatest(-1, epoch_ms(finished.log_timestamp) - epoch_ms(mark.log_timestamp)), -1)
  END AS duration_ms,
  CASE
    WHEN ends_at_once OR finished IS NOT NULL THEN 'finished'
    WHEN mark.ends_by_removal THEN 'removed'
    WHEN NOT mark.ends_by_removal THEN 'superseded'
    ELSE 'running'
  END AS outcome,
  CASE WHEN NOT ends_at_once THEN finished.member_id END AS slowest_member_id,
  CASE WHEN mark.is_known THEN mark.member_count_before END AS members_before,
  mark.member_count AS members_after,
  CASE WHEN mark.is_known THEN joined END AS joined_member_ids,
  CASE WHEN mark.is_known THEN gone END AS left_member_ids,
  CASE
    WHEN cause = 'topic_metadata_changed' AND array_length(changed) > 0
      THEN list_sort(list_distinct(list_transform(
        changed,
        lambda each: coalesce(list_filter(known.topics, lambda topic: topic.topic_id = each)[1].topic, each)
      )))
  END AS changed_topics,
  log_offset,
  CASE WHEN ends_at_once THEN log_offset ELSE finished.log_offset END AS finished_log_offset
FROM explained
CROSS JOIN (SELECT list({'topic_id': topic_id, 'topic': topic}) AS topics FROM topics) AS known
WHERE NOT mark.is_reduced
