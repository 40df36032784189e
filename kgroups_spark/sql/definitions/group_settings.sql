-- Configurations that apply to each group and its members: those set for the group, else the brokers', from the newest audit that knows any; those of a group that does not exist are listed, too
--
-- offsets_partition: Offsets partition of the group; null: no such group exists
-- group_id of cluster_facts
-- group_type: classic, consumer, share or streams; null: no such group exists
-- name: Configuration of a group, as consumer.session.timeout.ms; brokers have it as group.consumer.session.timeout.ms
-- value: Its value; null: unknown, because brokers differ, or the group's own could not be read
-- source: group, or as in cluster_facts: set, default or option; null: unknown

WITH own AS (
  SELECT group_id, name, value FROM _cluster WHERE kind = 'group_config' AND name IS NOT NULL
),
-- Groups whose own configuration could not be read; null: all.
unread AS (
  SELECT DISTINCT group_id FROM _cluster WHERE kind = 'group_config' AND name IS NULL
),
brokers AS (
  SELECT
    substr(name, 7) AS name,
    CASE WHEN count(DISTINCT value) = 1 THEN max(value) END AS value,
    CASE WHEN count(DISTINCT value) = 1 THEN max(source) END AS source
  FROM _cluster
  WHERE kind = 'broker_config' AND name LIKE 'group.%'
  GROUP BY name
),
inherited AS (
  SELECT groups.group_id, brokers.name,
    -- Sizes have no group of their own.
    brokers.name LIKE '%max.size' OR NOT EXISTS (
      SELECT 1 FROM unread WHERE unread.group_id = groups.group_id OR unread.group_id IS NULL
    ) AS is_known,
    brokers.value, brokers.source
  FROM (SELECT DISTINCT group_id, group_type FROM groups) AS groups
  JOIN brokers
    ON split_part(brokers.name, '.', 1) = groups.group_type
    OR (groups.group_type = 'classic' AND brokers.name IN ('max.size', 'min.session.timeout.ms', 'max.session.timeout.ms'))
  LEFT JOIN own ON own.group_id = groups.group_id AND own.name = brokers.name
  WHERE own.name IS NULL
),
settings AS (
  SELECT group_id, name, value, 'group' AS source FROM own
  UNION ALL
  SELECT group_id, name, CASE WHEN is_known THEN value END, CASE WHEN is_known THEN source END FROM inherited
)
SELECT groups.offsets_partition, settings.group_id, groups.group_type, settings.name, settings.value, settings.source
FROM settings
LEFT JOIN groups ON groups.group_id = settings.group_id
