-- Share partitions as of a moment (column known shows whether history is complete for it; for an empty answer, ask state_known_as_of and known_as_of), by the rules of Kafka 4.4, regardless of the audits' release
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- columns of share_partitions
-- audit_id: The audit that read the newest record (table audits)
-- known STRING: The histories' knowledge of the moment: complete, incomplete, reduced, before or after, as from state_known_as_of(ts) for __share_group_state; where that is complete, as from known_as_of(ts) for __consumer_offsets, which has init_state; null: __share_group_state was not read

WITH kgroups_known AS (
  SELECT * FROM state_known_as_of(ts)
),
kgroups_of_groups AS (
  SELECT known_as_of(ts) AS known
),
kgroups_records AS (
  SELECT * FROM share_records_as_of(ts)
),
kgroups_group_ends AS (
  SELECT * FROM log_ends_as_of(ts)
),
records AS (
  SELECT *,
    from_json(
      value,
      '{"snapshotEpoch": "INTEGER", "stateEpoch": "INTEGER", "leaderEpoch": "INTEGER", "startOffset": "BIGINT",
        "deliveryCompleteCount": "INTEGER", "createTimestamp": "BIGINT", "writeTimestamp": "BIGINT"}'
    ) AS v,
    row_number() OVER (PARTITION BY state_partition, group_id, topic_id, partition ORDER BY log_offset DESC) AS age
  FROM kgroups_records
),
-- An update changes no field that is -1, except the count; without a snapshot the state epoch is 0, and -1 is null.
states AS (
  SELECT
    max(CASE WHEN age = 1 THEN audit_id END) AS audit_id,
    state_partition, group_id, topic_id, partition,
    arg_max(v."startOffset", log_offset) FILTER (WHERE v."startOffset" <> -1) AS start_offset,
    nullif(max(CASE WHEN number = 1 THEN CASE record_type WHEN 0 THEN v."stateEpoch" ELSE 0 END END), -1)
      AS state_epoch,
    arg_max(v."leaderEpoch", log_offset) FILTER (WHERE v."leaderEpoch" <> -1) AS leader_epoch,
    nullif(max(CASE WHEN number = 1 THEN v."snapshotEpoch" END), -1) AS snapshot_epoch,
    nullif(max(CASE WHEN age = 1 THEN v."deliveryCompleteCount" END), -1) AS delivery_complete_count,
    max(CASE
      WHEN number = 1 AND v."createTimestamp" NOT IN (0, -1)
        THEN least(greatest(v."createTimestamp", -62135596800000), 253402300799999)
    END) AS create_ms,
    max(CASE
      WHEN number = 1 AND v."writeTimestamp" NOT IN (0, -1)
        THEN least(greatest(v."writeTimestamp", -62135596800000), 253402300799999)
    END) AS write_ms,
    max(CASE WHEN age = 1 THEN log_timestamp END) AS log_timestamp,
    max(log_offset) AS log_offset
  FROM records
  GROUP BY state_partition, group_id, topic_id, partition
),
-- The last removal or other type of each group: the log may have lost the tombstone of its list (R6).
ends AS (
  SELECT versions.offsets_partition, versions.group_id, max(versions.log_offset) AS log_offset
  FROM main.group_versions AS versions
  LEFT JOIN kgroups_group_ends AS log_ends ON log_ends.offsets_partition = versions.offsets_partition
  WHERE (versions.is_removed OR versions.group_type <> 'share')
    AND (log_ends.end_offset IS NULL OR versions.log_offset < log_ends.end_offset)
  GROUP BY versions.offsets_partition, versions.group_id
),
-- The last list of each group's coordinator (record type 15 of __consumer_offsets), of groups that exist.
listings AS (
  SELECT newest.audit_id, group_id,
    from_json(
      newest.value,
      '{"initializingTopics": [{"topicId": "VARCHAR", "topicName": "VARCHAR", "partitions": ["INTEGER"]}],
        "initializedTopics": [{"topicId": "VARCHAR", "topicName": "VARCHAR", "partitions": ["INTEGER"]}],
        "deletingTopics": [{"topicId": "VARCHAR", "topicName": "VARCHAR"}]}'
    ) AS v
  FROM (
    SELECT listed.*,
      row_number() OVER (PARTITION BY listed.offsets_partition, listed.group_id ORDER BY listed.log_offset DESC)
        AS age
    FROM main.group_records AS listed
    LEFT JOIN kgroups_group_ends AS ends ON ends.offsets_partition = listed.offsets_partition
    WHERE listed.record_type = 15 AND (ends.end_offset IS NULL OR listed.log_offset < ends.end_offset)
  ) AS newest
  LEFT JOIN ends USING (offsets_partition, group_id)
  WHERE newest.age = 1 AND newest.value IS NOT NULL
    AND (ends.log_offset IS NULL OR ends.log_offset < newest.log_offset)
),
listed_topics AS (
  SELECT audit_id, group_id, 1 AS stage, unnest(v."initializingTopics") AS listed FROM listings
  UNION ALL
  SELECT audit_id, group_id, 2, unnest(v."initializedTopics") FROM listings
),
deleting AS (
  SELECT group_id, listed."topicId" AS topic_id, listed."topicName" AS topic
  FROM (SELECT group_id, unnest(v."deletingTopics") AS listed FROM listings)
),
listed_partitions AS (
  SELECT group_id, topic_id, partition, max(audit_id) AS audit_id, max(stage) AS stage
  FROM (
    SELECT audit_id, group_id, stage, listed."topicId" AS topic_id, unnest(listed.partitions) AS partition
    FROM listed_topics
  )
  GROUP BY group_id, topic_id, partition
),
names AS (
  SELECT topic_id, coalesce(max(CASE WHEN is_listed THEN topic END), max(topic)) AS topic
  FROM (
    SELECT listed."topicId" AS topic_id, listed."topicName" AS topic, true AS is_listed FROM listed_topics
    UNION ALL
    SELECT topic_id, topic, true FROM deleting
    UNION ALL
    SELECT topic_id, topic, false FROM main.topics
  )
  GROUP BY topic_id
)
SELECT
  states.* EXCLUDE (audit_id, group_id, topic_id, partition),
  coalesce(states.audit_id, listed.audit_id) AS audit_id, group_id, topic_id, names.topic, partition,
  CASE
    WHEN is_deleting THEN 'deleting'
    WHEN listed.stage = 2 THEN 'initialized'
    WHEN listed.stage = 1 THEN 'initializing'
  END AS init_state,
  make_timestamptz(1000 * create_ms) AS create_timestamp, make_timestamptz(1000 * write_ms) AS write_timestamp,
  (
    SELECT CASE WHEN kgroups_known.known = 'complete' THEN kgroups_of_groups.known ELSE kgroups_known.known END
    FROM kgroups_known
    CROSS JOIN kgroups_of_groups
    WHERE kgroups_known.log = '__share_group_state'
  ) AS known
FROM states
FULL JOIN listed_partitions AS listed USING (group_id, topic_id, partition)
LEFT JOIN (SELECT DISTINCT group_id, topic_id, true AS is_deleting FROM deleting) AS deleting USING (group_id, topic_id)
LEFT JOIN names USING (topic_id)
