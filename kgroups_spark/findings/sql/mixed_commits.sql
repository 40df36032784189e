-- notice by group_traffic (audit_id == $audit_id and transactional_commits >= 1): one partition is committed both in transactions and outside them
-- of a group the first by topic, partition
-- {topic}-{partition} of {group_id} was committed {transactional_commits:counted time} in transactions and
-- {plain_commits:counted time} outside them[, and so were {others:counted other partition}]. The later record in the log
-- wins, even over a transaction that commits afterwards: exactly-once processing may process records twice. Most likely a
-- consumer commits as well as the producer: set its enable.auto.commit=false, or find the second program with this
-- group.id

-- One commit outside of a transaction may be an admin reset.
SELECT offsets_partition, group_id, topic, partition, max(log_offset) AS log_offset,
  count(*) FILTER (is_transactional) AS transactional_commits, count(*) FILTER (NOT is_transactional) AS plain_commits
FROM offset_commits
SEMI JOIN (
  SELECT offsets_partition, group_id
  FROM group_traffic
  WHERE audit_id = $audit_id
  GROUP BY ALL
  HAVING sum(transactional_commits) BETWEEN 1 AND sum(commits) - 1
) USING (offsets_partition, group_id)
WHERE audit_id = $audit_id AND committed_offset IS NOT NULL
GROUP BY ALL
HAVING transactional_commits > 0 AND plain_commits >= 2
