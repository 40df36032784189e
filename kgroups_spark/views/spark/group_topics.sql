CREATE OR REPLACE TEMPORARY VIEW group_topics (
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  group_id COMMENT 'Group',
  topic COMMENT 'Topic',
  source COMMENT 'subscribed: a member subscribes to the name; regex: it matched a member''s regular expression when that was resolved last; topology: a source or repartition topic of a streams group''s topology, read by its members; committed: there are committed offsets, maybe of a group that is gone (is_orphan)'
)
COMMENT 'Topics of every group, as of the last finished audit: a row for each thing that says so'
AS
SELECT DISTINCT offsets_partition, group_id, topic, 'subscribed' AS source
FROM (SELECT offsets_partition, group_id, explode(subscribed_topics) AS topic FROM group_members)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'regex'
FROM (
  SELECT offsets_partition, group_id, explode(flatten(map_values(resolved_regex_topics))) AS topic FROM groups
)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'topology'
FROM (
  SELECT
    offsets_partition,
    group_id,
    explode(concat(
      subtopology.sourceTopics,
      transform(subtopology.repartitionSourceTopics, each -> each.name)
    )) AS topic
  FROM (
    SELECT
      offsets_partition,
      group_id,
      explode(
        from_json(
          topology,
          'STRUCT<subtopologies: ARRAY<STRUCT<sourceTopics: ARRAY<STRING>, repartitionSourceTopics: ARRAY<STRUCT<name: STRING>>>>>'
        ).subtopologies
      ) AS subtopology
    FROM groups
    WHERE topology IS NOT NULL
  )
)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'committed'
FROM committed_offsets
