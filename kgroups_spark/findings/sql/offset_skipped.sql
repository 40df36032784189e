-- warning by moved: committed offsets moved ahead without reading: records are never read
--
-- {topic}-{partition} of {group_id} was moved ahead from {offset_before} to {offset_after}[ at {since:time}], while no member
-- read it: up to {records:counted record} are never read.[ So were {others:counted other offset} in the records of this
-- audit.] If nobody meant to, keep a copy and move the group back before the topic deletes them. When, and why as far as the
-- log shows: kgroups history {group_id:option}

-- `is_hidden`: the group's next record is two generations later, so members may have read: the records that show them were
-- compacted away.
-- `busy`: an offset that moved three times or more while the group had no members: consumers that assign themselves read on.
WITH busy AS (
  SELECT offsets_partition, group_id, topic, partition, min(log_offset) AS log_offset_before, max(log_offset) AS log_offset
  FROM (
    SELECT *, count_if(event IN ('generation_changed', 'state_changed')) OVER (
      PARTITION BY offsets_partition, group_id ORDER BY log_offset
    ) AS visit
    FROM moved
  )
  WHERE cause = 'no_members'
  GROUP BY offsets_partition, group_id, topic, partition, visit
  HAVING count(*) > 2
),
generations AS (
  SELECT offsets_partition, group_id, log_offset, lag(log_offset, 1, -1) OVER of_group AS log_offset_before,
    sum(CASE WHEN event = 'generation_changed' THEN CAST(value_after AS BIGINT) - CAST(value_before AS BIGINT) END) > 1
      AS is_hidden
  FROM moved
  WHERE event IN ('generation_changed', 'state_changed')
  GROUP BY offsets_partition, group_id, log_offset
  WINDOW of_group AS (PARTITION BY offsets_partition, group_id ORDER BY log_offset)
)
SELECT *, distance AS records, nullif(count(DISTINCT (topic, partition)) OVER of_group - 1, 0) AS others
FROM _moves
WHERE distance > 0 AND NOT EXISTS (
  SELECT 1
  FROM generations
  WHERE is_hidden AND generations.offsets_partition = _moves.offsets_partition AND generations.group_id = _moves.group_id
    AND _moves.log_offset > log_offset_before AND _moves.log_offset < generations.log_offset
)
AND NOT EXISTS (
  SELECT 1
  FROM busy
  WHERE (busy.offsets_partition, busy.group_id, busy.topic, busy.partition)
    = (_moves.offsets_partition, _moves.group_id, _moves.topic, _moves.partition)
    AND _moves.log_offset BETWEEN log_offset_before AND busy.log_offset
)
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY distance DESC, log_offset, topic, partition) = 1
