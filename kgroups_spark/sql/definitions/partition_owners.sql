-- Owners of partitions over time, from the members' assignments in the log. A member owns partitions pending revocation until it has released them. In a streams group an active task owns its partition of each source and repartition topic of its subtopology, by the topology of that time
--
-- offsets_partition, group_id of group_member_versions
-- topic: Topic; null: the log has only its id, and its name is unknown
-- topic_id: Topic id; null: the log names the topic (classic and streams groups)
-- partition of committed_offsets
-- member_id of group_member_versions
-- client_id: Its client.id; null: not logged
-- client_host of group_member_versions
-- valid_from: Log time of the record by which it got the partition; null: its time does not count (last_audit.believed_until), or it is no longer in history (kgroups maintain --keep)
-- valid_to: Log time of the record by which it no longer had it, or the next known time (in a log without times: the start of the last audit); null: still
-- log_offset: The record by which it got the partition; where valid_from is no longer in history, the first record that is left
-- released_log_offset: The record by which it no longer had it; null: still

WITH topologies AS (
  SELECT offsets_partition, group_id, log_offset AS topology_offset,
    lead(log_offset) OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset) AS next_topology_offset,
    list_transform(
      from_json(
        value,
        '{"subtopologies": [
          {"subtopologyId": "VARCHAR", "sourceTopics": ["VARCHAR"], "repartitionSourceTopics": [{"name": "VARCHAR"}]}
        ]}'
      ).subtopologies,
      lambda each: {
        'id': each."subtopologyId",
        'topics': list_concat(
          coalesce(each."sourceTopics", []),
          list_transform(coalesce(each."repartitionSourceTopics", []), lambda topic: topic.name)
        )
      }
    ) AS subtopologies
  FROM group_records
  WHERE record_type = 23 AND value IS NOT NULL
),
assigned AS (
  SELECT offsets_partition, group_id, member_id, log_offset, log_timestamp, client_id, client_host,
    list_transform(
      list_concat(coalesce(assigned_partitions, []), coalesce(pending_revocation_partitions, [])),
      lambda held: {'topic': held.topic, 'topic_id': held.topic_id, 'partition': held.partition}
    ) AS holds
  FROM group_member_versions
  WHERE assigned_tasks IS NULL
  UNION ALL
  SELECT offsets_partition, group_id, member_id, log_offset, log_timestamp, client_id, client_host,
    flatten(list_transform(
      list_filter(
        list_concat(coalesce(assigned_tasks, []), coalesce(pending_revocation_tasks, [])),
        lambda task: task.role = 'active'
      ),
      lambda task: flatten(list_transform(
        list_filter(subtopologies, lambda each: each.id = task.subtopology_id),
        lambda each: list_transform(
          each.topics,
          lambda topic: {'topic': topic, 'topic_id': CAST(NULL AS VARCHAR), 'partition': task.partition}
        )
      ))
    ))
  FROM group_member_versions
  JOIN topologies USING (offsets_partition, group_id)
  WHERE assigned_tasks IS NOT NULL AND log_offset >= topology_offset
    AND (next_topology_offset IS NULL OR log_offset < next_topology_offset)
),
versions AS (
  SELECT offsets_partition, group_id, member_id, log_offset,
    CASE WHEN log_timestamp > (SELECT max(believed_until) FROM last_audit) THEN NULL ELSE log_timestamp END AS log_timestamp,
    -- Only the member's last version below that offset is left: it may have had the partition before.
    coalesce(log_offset < reduced_to, FALSE) AS is_reduced,
    client_id, client_host,
    -- A member owns partitions pending revocation until it has released them: no other member gets them before.
    list_sort(list_distinct(holds)) AS holds
  FROM assigned
  LEFT JOIN _reduced AS reduced ON reduced.log = '__consumer_offsets' AND reduced.partition = offsets_partition
),
compared AS (
  SELECT *,
    {'holds': holds, 'client_id': client_id, 'client_host': client_host} AS reported,
    lag({'holds': holds, 'client_id': client_id, 'client_host': client_host}) OVER (
      PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset
    ) AS reported_before
  FROM versions
),
-- Versions that change an assignment, member by member in order.
changes AS (
  SELECT *, row_number() OVER member AS number, lead(log_offset) OVER member AS next_log_offset,
    -- For a record without a time, or a correction: the next known time, else the last at which it was so.
    coalesce(lead(log_timestamp IGNORE NULLS) OVER member, log_timestamp) AS next_timestamp
  FROM compared
  WHERE reported IS DISTINCT FROM reported_before
  WINDOW member AS (PARTITION BY offsets_partition, group_id, member_id ORDER BY log_offset)
),
held AS (
  SELECT offsets_partition, group_id, member_id, client_id, client_host, number, log_offset,
    CASE WHEN NOT is_reduced THEN log_timestamp END AS log_timestamp,
    next_log_offset,
    CASE WHEN next_log_offset IS NOT NULL THEN coalesce(next_timestamp, (SELECT max(started_at) FROM last_audit)) END AS next_timestamp,
    unnest(holds) AS held
  FROM changes
),
-- Consecutive changes that leave the partition with the member are one span.
numbered AS (
  SELECT *,
    number - row_number() OVER (
      PARTITION BY offsets_partition, group_id, member_id, client_id, client_host, held ORDER BY number
    ) AS span
  FROM held
),
spans AS (
  SELECT offsets_partition, group_id, member_id, client_id, client_host, held.topic AS topic, held.topic_id AS topic_id,
    held.partition AS partition,
    min_by({'log_offset': log_offset, 'log_timestamp': log_timestamp}, number) AS begins,
    max_by({'log_offset': next_log_offset, 'log_timestamp': next_timestamp}, number) AS ends
  FROM numbered
  GROUP BY offsets_partition, group_id, member_id, client_id, client_host, held, span
)
SELECT
  spans.* EXCLUDE (topic),
  coalesce(spans.topic, topics.topic) AS topic,
  spans.begins.log_timestamp AS valid_from, spans.ends.log_timestamp AS valid_to, spans.begins.log_offset AS log_offset,
  spans.ends.log_offset AS released_log_offset
FROM spans
LEFT JOIN topics ON topics.topic_id = spans.topic_id
