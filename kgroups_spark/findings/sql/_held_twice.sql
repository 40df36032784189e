-- By group, the first partition or task that several members have, and the number of others. Members of share groups
-- share partitions. Nearly all partitions have one member, so members are listed after those are counted out.
SELECT *, nullif(count(*) OVER of_group - 1, 0) AS others
FROM (
  SELECT how, offsets_partition, group_id, id, partition, min(topic) AS topic, max(member_id) AS member_id,
    max(log_offset) AS log_offset, coalesce(min(topic), id) AS thing, list_sort(list(DISTINCT member_id)) AS members,
    CASE
      WHEN len(members) = 2 THEN members[1] || ' and ' || members[2]
      ELSE len(members) || ' members (' || members[1] || ' among them)'
    END AS who
  FROM _held
  SEMI JOIN (
    SELECT how, offsets_partition, group_id, id, partition FROM _held WHERE NOT may_share GROUP BY ALL HAVING count(*) > 1
  ) USING (how, offsets_partition, group_id, id, partition)
  WHERE NOT may_share
  GROUP BY how, offsets_partition, group_id, id, partition
  HAVING min(member_id) <> max(member_id)
)
WINDOW of_group AS (PARTITION BY how, offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY coalesce(topic, ''), id, partition) = 1
