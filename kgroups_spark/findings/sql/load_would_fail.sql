-- error by quarantine (coordinator_fails == true and resolved_by is null): a coordinator of the chosen release would refuse to load the partition
--
-- A coordinator of the chosen release {would} partition {offsets_partition} of __consumer_offsets at offset
-- {log_offset} ({reason}: {why}).[ {others:counted other} like it: table quarantine.] All groups of the partition then
-- have no coordinator and cannot commit or fetch offsets. They work as long as the current leader keeps what it has
-- loaded. Before a restart or an upgrade, keep a copy (kgroups export-offsets --all-groups) and check whether the record
-- is still in the log

-- The first record, if the log still has it. A record can have two rows, from its decoding and its replay.
SELECT CASE reason WHEN 'corrupt_batch' THEN 'checks no CRC, and may load other values or stop loading'
    ELSE 'would stop loading' END AS would, offsets_partition, log_offset, log_timestamp AS since, group_id, topic, partition, producer_id, reason,
  detail AS why, nullif((count(DISTINCT log_offset) OVER of_partition) - 1, 0) AS others
FROM quarantine LEFT JOIN read USING (offsets_partition)
WHERE coordinator_fails AND resolved_by IS NULL AND log_offset >= coalesce(log_start, 0)
WINDOW of_partition AS (PARTITION BY offsets_partition)
QUALIFY row_number() OVER (of_partition ORDER BY log_offset, reason, detail) = 1
