-- warning by _moves (distance >= 1): committed offsets moved ahead without reading: records are never read
--
-- {topic}-{partition} of {group_id} was moved ahead from {offset_before} to {offset_after}[ at {since:time}], while no member
-- read it: up to {records:counted record} {records:is|are} never read.[ So were {others:counted other offset} in the records of this
-- audit.] If nobody meant to, keep a copy and move the group back before the topic deletes them. When, and why as far as the
-- log shows: kgroups history {group_id:option}

-- As all_events. `hidden`: the group's next record is two generations later, so members may have read: the records that show
-- them were compacted away. `busy`: it moved three times while the group had no members: consumers that assign themselves.
WITH visits AS (
  SELECT *, count_if(event IN ('generation_changed', 'state_changed')) OVER (
    PARTITION BY offsets_partition, group_id ORDER BY log_offset
  ) AS visit
  FROM (
    SELECT offsets_partition, group_id, topic, partition, log_offset, event, cause,
      CASE WHEN event = 'generation_changed' THEN CAST(value_after AS BIGINT) - CAST(value_before AS BIGINT) END AS generations
    FROM moved
    SEMI JOIN (FROM _moves WHERE distance > 0) USING (offsets_partition, group_id)
    WHERE event NOT IN ('member_joined', 'member_left', 'member_replaced', 'assignment_changed')
  )
),
hidden AS (
  SELECT offsets_partition, group_id, visit - count(*) AS visit
  FROM visits
  WHERE event IN ('generation_changed', 'state_changed')
  GROUP BY offsets_partition, group_id, visits.visit
  HAVING sum(generations) > 1
),
busy AS (
  SELECT offsets_partition, group_id, topic, partition, visit
  FROM visits
  WHERE cause = 'no_members'
  GROUP BY ALL
  HAVING count(*) > 2
)
SELECT *, distance AS records, nullif(count(DISTINCT (topic, partition)) OVER of_group - 1, 0) AS others
FROM _moves
JOIN (SELECT DISTINCT offsets_partition, group_id, log_offset, visit FROM visits) USING (offsets_partition, group_id, log_offset)
ANTI JOIN hidden USING (offsets_partition, group_id, visit)
ANTI JOIN busy USING (offsets_partition, group_id, topic, partition, visit)
WHERE distance > 0
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY distance DESC, log_offset, topic, partition) = 1
