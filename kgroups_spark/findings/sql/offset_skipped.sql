-- warning: committed offsets moved ahead without reading: records are never read
--
-- {topic}-{partition} of {group_id} was moved ahead from {offset_before} to {offset_after}[ at {since:time}], while no member
-- read it: up to {records:counted record} are never read.[ So were {others:counted other offset} in the records of this
-- audit.] If nobody meant to, keep a copy and move the group back before the topic deletes them. When, and why as far as the
-- log shows: kgroups history {group_id:option}

SELECT *, distance AS records, nullif(count(*) OVER of_group - 1, 0) AS others
FROM _moves
WHERE distance > 0
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY distance DESC, log_offset, topic, partition) = 1
