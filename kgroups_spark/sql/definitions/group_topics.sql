-- Topics of every group, as of the last finished audit: a row for each source
--
-- offsets_partition, group_id, topic of committed_offsets
-- source: subscribed: a member subscribes to the name; regex: it matched a member's regular expression when that was last resolved; topology: a source or repartition topic of a streams group's topology, read by its members; committed: it has committed offsets, perhaps of a deleted group (is_orphan)

SELECT DISTINCT offsets_partition, group_id, topic, 'subscribed' AS source
FROM (SELECT offsets_partition, group_id, unnest(subscribed_topics) AS topic FROM group_members)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'regex'
FROM (
  SELECT offsets_partition, group_id, unnest(flatten(map_values(resolved_regex_topics))) AS topic FROM groups
)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'topology'
FROM (
  SELECT offsets_partition, group_id,
    unnest(list_concat(
      subtopology."sourceTopics",
      list_transform(subtopology."repartitionSourceTopics", lambda each: each.name)
    )) AS topic
  FROM (
    SELECT offsets_partition, group_id,
      unnest(
        from_json(
          topology,
          '{"subtopologies": [{"sourceTopics": ["VARCHAR"], "repartitionSourceTopics": [{"name": "VARCHAR"}]}]}'
        ).subtopologies
      ) AS subtopology
    FROM groups
    WHERE topology IS NOT NULL
  )
)
UNION ALL
SELECT DISTINCT offsets_partition, group_id, topic, 'committed'
FROM committed_offsets
