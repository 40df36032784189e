CREATE OR REPLACE TEMPORARY FUNCTION group_members_as_of(
  ts TIMESTAMP COMMENT 'The moment: the log of each partition counts before its first record with a later time; null: all that was read'
)
RETURNS TABLE (
  audit_id BIGINT COMMENT 'The audit that wrote the row (table audits)',
  offsets_partition INT COMMENT 'Partition of __consumer_offsets',
  log_offset BIGINT COMMENT 'Record that made the member so',
  log_timestamp TIMESTAMP COMMENT 'Its log time; null: it has none',
  group_id STRING COMMENT 'Group',
  member_id STRING COMMENT 'Member',
  group_instance_id STRING COMMENT 'group.instance.id of a static member; null: dynamic',
  client_id STRING COMMENT 'client.id; null: not logged',
  client_host STRING COMMENT 'Host as the broker saw it; null: not logged',
  rack_id STRING COMMENT 'Rack; null: not logged',
  rebalance_timeout_ms INT COMMENT 'Rebalance timeout; null: not logged',
  session_timeout_ms INT COMMENT 'Classic protocol: session timeout; null: not logged',
  member_epoch INT COMMENT 'Member epoch, -2: a static member that is away; null: classic, or none yet',
  previous_member_epoch INT COMMENT 'Epoch before; null: classic, or none yet',
  member_state STRING COMMENT 'STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN; null: classic',
  uses_classic_protocol BOOLEAN COMMENT 'Speaks the classic protocol; null: share and streams, which have no other',
  server_assignor STRING COMMENT 'Assignor that the member asked for; null: none',
  subscribed_topics ARRAY<STRING> COMMENT 'Names subscribed to; null: unknown, its subscription cannot be read',
  subscribed_regex STRING COMMENT 'Expression subscribed to; null: none',
  assigned_partitions ARRAY<STRUCT<topic: STRING, topic_id: STRING, partition: INT, assignment_epoch: INT>> COMMENT 'What it has; null: unknown, or streams',
  pending_revocation_partitions ARRAY<STRUCT<topic: STRING, topic_id: STRING, partition: INT, assignment_epoch: INT>> COMMENT 'What it has to give up; null: classic or streams',
  target_partitions ARRAY<STRUCT<topic: STRING, topic_id: STRING, partition: INT, assignment_epoch: INT>> COMMENT 'What it shall have; null: classic or streams',
  assigned_tasks ARRAY<STRUCT<role: STRING, subtopology_id: STRING, partition: INT>> COMMENT 'Streams: tasks it has; null: not streams',
  target_tasks ARRAY<STRUCT<role: STRING, subtopology_id: STRING, partition: INT>> COMMENT 'Streams: tasks it shall have; null: not streams',
  pending_revocation_tasks ARRAY<STRUCT<role: STRING, subtopology_id: STRING, partition: INT>> COMMENT 'Streams: tasks it has to give up; null: not streams',
  topology_epoch INT COMMENT 'Streams: epoch of the member''s topology; null: not streams',
  process_id STRING COMMENT 'Streams: process; null: not streams',
  known STRING COMMENT 'What the history knows of the moment, as known_as_of(ts) says: complete, incomplete, before or after'
)
COMMENT 'Members of groups as of a moment (column known says whether the history has all there was; of an empty answer known_as_of says it); topics are named as far as the last audit knows their names'
RETURN
WITH numbered AS (
  SELECT
    versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id, versions.member_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM group_member_versions AS versions
  LEFT JOIN log_ends_as_of(ts) AS ends ON ends.offsets_partition = versions.offsets_partition
  WHERE ends.end_offset IS NULL OR versions.log_offset < ends.end_offset
),
-- Versions name a partition by what its record said, name or id; the other is completed as in group_members.
names AS (
  SELECT
    map_from_entries(collect_list(struct(topic_id, topic))) AS topics,
    map_from_entries(collect_set(struct(topic, newest_topic_id))) AS ids
  FROM (
    SELECT
      topic_id,
      topic,
      first_value(topic_id) OVER (
        PARTITION BY topic ORDER BY source = 'cluster' DESC, seen_log_timestamp DESC NULLS LAST, topic_id DESC
      ) AS newest_topic_id
    FROM topics
  )
)
SELECT
  numbered.audit_id,
  numbered.offsets_partition,
  numbered.log_offset,
  numbered.log_timestamp,
  numbered.group_id,
  numbered.member_id,
  numbered.group_instance_id,
  numbered.client_id,
  numbered.client_host,
  numbered.rack_id,
  numbered.rebalance_timeout_ms,
  numbered.session_timeout_ms,
  numbered.member_epoch,
  numbered.previous_member_epoch,
  numbered.member_state,
  numbered.uses_classic_protocol,
  numbered.server_assignor,
  numbered.subscribed_topics,
  numbered.subscribed_regex,
  transform(
    array_sort(transform(
      numbered.assigned_partitions,
      held -> struct(
        coalesce(held.topic, names.topics[held.topic_id], '') AS topic,
        coalesce(held.topic_id, names.ids[held.topic], '') AS topic_id,
        held.partition,
        held.assignment_epoch
      )
    )),
    held -> struct(
      nullif(held.topic, '') AS topic,
      nullif(held.topic_id, '') AS topic_id,
      held.partition,
      held.assignment_epoch
    )
  ) AS assigned_partitions,
  transform(
    array_sort(transform(
      numbered.pending_revocation_partitions,
      held -> struct(
        coalesce(held.topic, names.topics[held.topic_id], '') AS topic,
        coalesce(held.topic_id, names.ids[held.topic], '') AS topic_id,
        held.partition,
        held.assignment_epoch
      )
    )),
    held -> struct(
      nullif(held.topic, '') AS topic,
      nullif(held.topic_id, '') AS topic_id,
      held.partition,
      held.assignment_epoch
    )
  ) AS pending_revocation_partitions,
  transform(
    array_sort(transform(
      numbered.target_partitions,
      held -> struct(
        coalesce(held.topic, names.topics[held.topic_id], '') AS topic,
        coalesce(held.topic_id, names.ids[held.topic], '') AS topic_id,
        held.partition,
        held.assignment_epoch
      )
    )),
    held -> struct(
      nullif(held.topic, '') AS topic,
      nullif(held.topic_id, '') AS topic_id,
      held.partition,
      held.assignment_epoch
    )
  ) AS target_partitions,
  numbered.assigned_tasks,
  numbered.target_tasks,
  numbered.pending_revocation_tasks,
  numbered.topology_epoch,
  numbered.process_id,
  known_as_of(ts) AS known
FROM numbered
CROSS JOIN names
WHERE numbered.number = 1 AND NOT numbered.is_removed
