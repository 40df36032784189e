-- warning by cluster_facts: a share group's window is full: its consumers receive no new records
-- of all partitions
-- Share group {group_id} has at least {window_records:counted record} between the start offset {start_offset} and the last one
-- whose state is stored, in {partitions:some}, and may have {record_locks} (share.partition.max.record.locks). Brokers acquire no
-- new records there until the records at the start offset are finished: fetches return nothing. Find out which
-- consumer holds them, or does not finish them: kafka-share-groups.sh --bootstrap-server HOST:PORT --describe --group
-- {group_id:word} --members

-- A record that is stored as available can still be fetched. Records in flight are not stored, so this is a lower bound.
WITH facts AS (SELECT * FROM cluster_facts WHERE audit_id = (SELECT max(audit_id) FROM cluster_facts)),
own AS (
  SELECT group_id, max(TRY_CAST(value AS BIGINT)) AS record_locks FROM facts
  WHERE kind = 'group_config' AND name = 'share.partition.max.record.locks' GROUP BY group_id
),
brokers AS (
  SELECT max(TRY_CAST(value AS BIGINT)) AS record_locks FROM facts
  WHERE kind = 'broker_config' AND name = 'group.share.partition.max.record.locks'
),
windows AS (
  SELECT group_id, topic_id, partition,
    max(last_offset)::DECIMAL(38, 0) - any_value(start_offset) + 1 AS window_records, any_value(start_offset) AS start_offset,
    any_value(share_partitions.topic) AS topic, any_value(log_timestamp) AS since
  FROM share_partitions JOIN share_batches USING (group_id, topic_id, partition)
  WHERE start_offset >= 0
  GROUP BY ALL
  HAVING NOT bool_or(delivery_state = 'available')
),
found AS (
  SELECT windows.*, coalesce(own.record_locks, brokers.record_locks) AS record_locks
  FROM windows LEFT JOIN own USING (group_id), brokers
  WHERE window_records >= coalesce(own.record_locks, brokers.record_locks)
)
SELECT group_id, topic, partition, since, start_offset, TRY_CAST(window_records AS BIGINT) AS window_records, record_locks,
  list(coalesce(topic, topic_id) || '-' || partition) OVER (PARTITION BY group_id) AS partitions
FROM found
QUALIFY row_number() OVER (PARTITION BY group_id ORDER BY topic_id, partition) = 1
