-- warning by _moves (distance <= -1): committed offsets moved back: records are read again
--
-- {topic}-{partition} of {group_id} was moved back from {offset_before} to {offset_after}[ at {since:time}]: up to
-- {records:counted record} are read again.[ So were {others:counted other offset} in the records of this audit.] If nobody
-- meant to, this group's consumers process these records twice. When, and why as far as the log shows: kgroups history
-- {group_id:option}

SELECT *, -distance AS records, nullif(count(DISTINCT (topic, partition)) OVER of_group - 1, 0) AS others
FROM _moves
WHERE distance < 0
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY distance, log_offset, topic, partition) = 1
