CREATE OR REPLACE MACRO group_members_as_of(ts) AS TABLE
WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT
    versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id, versions.member_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM main.group_member_versions AS versions
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = versions.offsets_partition
  WHERE ends.end_offset IS NULL OR versions.log_offset < ends.end_offset
),
-- Versions name a partition by what its record said, name or id; the other is completed as in group_members.
names AS (
  SELECT
    map_from_entries(list({'key': topic_id, 'value': topic})) AS topics,
    map_from_entries(list(DISTINCT {'key': topic, 'value': newest_topic_id})) AS ids
  FROM (
    SELECT
      topic_id,
      topic,
      first_value(topic_id) OVER (
        PARTITION BY topic ORDER BY source = 'cluster' DESC, seen_log_timestamp DESC NULLS LAST, topic_id DESC
      ) AS newest_topic_id
    FROM main.topics
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
  list_transform(
    list_sort(list_transform(
      numbered.assigned_partitions,
      lambda held: {
        'topic': coalesce(held.topic, names.topics[held.topic_id], ''),
        'topic_id': coalesce(held.topic_id, names.ids[held.topic], ''),
        'partition': held.partition,
        'assignment_epoch': held.assignment_epoch
      }
    )),
    lambda held: {
      'topic': nullif(held.topic, ''),
      'topic_id': nullif(held.topic_id, ''),
      'partition': held.partition,
      'assignment_epoch': held.assignment_epoch
    }
  ) AS assigned_partitions,
  list_transform(
    list_sort(list_transform(
      numbered.pending_revocation_partitions,
      lambda held: {
        'topic': coalesce(held.topic, names.topics[held.topic_id], ''),
        'topic_id': coalesce(held.topic_id, names.ids[held.topic], ''),
        'partition': held.partition,
        'assignment_epoch': held.assignment_epoch
      }
    )),
    lambda held: {
      'topic': nullif(held.topic, ''),
      'topic_id': nullif(held.topic_id, ''),
      'partition': held.partition,
      'assignment_epoch': held.assignment_epoch
    }
  ) AS pending_revocation_partitions,
  list_transform(
    list_sort(list_transform(
      numbered.target_partitions,
      lambda held: {
        'topic': coalesce(held.topic, names.topics[held.topic_id], ''),
        'topic_id': coalesce(held.topic_id, names.ids[held.topic], ''),
        'partition': held.partition,
        'assignment_epoch': held.assignment_epoch
      }
    )),
    lambda held: {
      'topic': nullif(held.topic, ''),
      'topic_id': nullif(held.topic_id, ''),
      'partition': held.partition,
      'assignment_epoch': held.assignment_epoch
    }
  ) AS target_partitions,
  numbered.assigned_tasks,
  numbered.target_tasks,
  numbered.pending_revocation_tasks,
  numbered.topology_epoch,
  numbered.process_id,
  (SELECT kgroups_known FROM kgroups_known) AS known
FROM numbered
CROSS JOIN names
WHERE numbered.number = 1 AND NOT numbered.is_removed;

COMMENT ON MACRO TABLE group_members_as_of IS 'Members of groups as of a moment (column known says whether the history has all there was; of an empty answer known_as_of says it); topics are named as far as the last audit knows their names. ts: The moment: the log of each partition counts before its first record with a later time; null: all that was read';
