-- Members of groups as of a moment (column known shows whether history is complete for it; for an empty answer, ask known_as_of); topic names are those known to the last audit
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of group_member_versions but is_removed
-- log_offset: Record that put the member in this state
-- log_timestamp: Log time of that record; null: it has none
-- known of groups_as_of

WITH kgroups_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
kgroups_known AS (
  SELECT known_as_of(ts) AS kgroups_known
),
numbered AS (
  SELECT versions.*,
    row_number() OVER (
      PARTITION BY versions.offsets_partition, versions.group_id, versions.member_id ORDER BY versions.log_offset DESC
    ) AS number
  FROM main.group_member_versions AS versions
  LEFT JOIN kgroups_ends AS ends ON ends.offsets_partition = versions.offsets_partition
  WHERE ends.end_offset IS NULL OR versions.log_offset < ends.end_offset
),
-- Versions have a partition's topic by name or id, as its record did; the other is completed as in group_members.
names AS (
  SELECT
    map_from_entries(list({'key': topic_id, 'value': topic})) AS topics,
    map_from_entries(list(DISTINCT {'key': topic, 'value': newest_topic_id})) AS ids
  FROM (
    SELECT topic_id, topic,
      first_value(topic_id) OVER (
        PARTITION BY topic ORDER BY source = 'cluster' DESC, seen_log_timestamp DESC NULLS LAST, topic_id DESC
      ) AS newest_topic_id
    FROM main.topics
  )
),
completed AS (
  SELECT numbered.*,
    list_transform(
      [assigned_partitions, pending_revocation_partitions, target_partitions],
      lambda partitions: list_transform(
        list_sort(list_transform(
          partitions,
          lambda held: {
            'topic': coalesce(held.topic, names.topics[held.topic_id], ''),
            'topic_id': coalesce(held.topic_id, names.ids[held.topic], ''),
            'partition': held.partition, 'assignment_epoch': held.assignment_epoch
          }
        )),
        lambda held: {
          'topic': nullif(held.topic, ''),
          'topic_id': nullif(held.topic_id, ''),
          'partition': held.partition, 'assignment_epoch': held.assignment_epoch
        }
      )
    ) AS with_names
  FROM numbered
  CROSS JOIN names
  WHERE number = 1 AND NOT is_removed
)
SELECT
  * EXCLUDE (assigned_partitions, pending_revocation_partitions, target_partitions),
  with_names[1] AS assigned_partitions,
  with_names[2] AS pending_revocation_partitions,
  with_names[3] AS target_partitions,
  (SELECT kgroups_known FROM kgroups_known) AS known
FROM completed
