-- The partition count of __consumer_offsets: the only number up to 2,000 that fits the partitions read and every group of the last audit; null: none, or more than one
--
-- returns INT

WITH known AS (
  SELECT offsets_partition,
    coalesce(is_misplaced, false) AS is_misplaced,
    abs(CAST(java_hash(groups.group_id) AS BIGINT) % 2147483648) AS magnitude
  FROM main.groups
),
-- A number that fits a group divides the difference of its hash and its partition: two groups leave few.
two AS (
  SELECT min(magnitude - offsets_partition) AS least, max(magnitude - offsets_partition) AS most
  FROM known
  WHERE NOT is_misplaced
),
numbers AS (
  SELECT unnest(range(1, 2001)) AS partitions
),
fitting AS (
  SELECT partitions
  FROM numbers
  CROSS JOIN two
  WHERE coalesce(least % partitions = 0 AND most % partitions = 0, true)
)
SELECT CASE WHEN count(*) = 1 THEN CAST(min(partitions) AS INTEGER) END
FROM fitting
WHERE partitions > (
  SELECT max(offsets_partition) FROM main.audit_partitions
  WHERE audit_id = (SELECT max(audit_id) FROM main.audits WHERE status = 'finished')
)
  AND NOT EXISTS (
    SELECT 1 FROM known WHERE (known.magnitude % fitting.partitions = known.offsets_partition) = known.is_misplaced
  )
