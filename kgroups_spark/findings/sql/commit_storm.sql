-- warning by group_traffic (audit_id == $audit_id and commits >= 36000): a group commits far more often than it needs to
--
-- {group_id} committed {commits:number} times[ in the hour from {since:time}], for {partitions:counted partition}: more than
-- once a second each. Every commit is a record that brokers replicate, clean, and read again when the coordinator moves;
-- automatic commits come every 5 s. Commit after a batch or by time, not after each record

-- Once a second for each partition, five times the rate of enable.auto.commit (auto.commit.interval.ms, 5 s), in groups
-- that commit ten times a second in all: fewer commits are no burden.
WITH worst AS (
  SELECT offsets_partition, group_id, commits, hour AS since
  FROM group_traffic
  WHERE audit_id = $audit_id AND commits >= 36000
  QUALIFY row_number() OVER (PARTITION BY offsets_partition, group_id ORDER BY commits DESC, hour DESC NULLS LAST) = 1
)
SELECT worst.*, greatest(1, count(committed_offsets.group_id)) AS partitions
FROM worst LEFT JOIN committed_offsets USING (offsets_partition, group_id)
GROUP BY ALL
HAVING commits > 3600 * greatest(1, count(committed_offsets.group_id))
