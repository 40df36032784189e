-- warning by topic_offsets (audit_id == $audit_id): a share group has records waiting but makes no progress
-- of all partitions
-- Share group {group_id} has members, and {waiting:counted record} of {partitions:some} wait for it. Nothing was
-- acknowledged, released or archived there since {since:time}, longer than the 1h for which a record can be locked at
-- most. Its consumers receive no records, or hang: kafka-share-groups.sh --bootstrap-server HOST:PORT --describe --group
-- {group_id:word} --members

-- A record is locked for 30 s by default, and for an hour at most (group.share.max.record.lock.duration.ms). A topic that
-- was deleted has no lag, if another one has its name.
WITH ends AS (
  SELECT topic, topic_id AS end_id, partition, log_end_offset FROM topic_offsets WHERE audit_id = $audit_id
),
waiting AS (
  SELECT group_id, topic, partition, topic_id, log_timestamp,
    log_end_offset - start_offset - delivery_complete_count AS lag
  FROM share_partitions JOIN ends USING (topic, partition)
  WHERE log_timestamp <= $known_until - INTERVAL 1 HOUR AND (end_id IS NULL OR end_id = topic_id)
    AND start_offset >= 0 AND delivery_complete_count >= 0
    AND group_id IN (SELECT group_id FROM groups WHERE group_type = 'share' AND state = 'Stable')
)
SELECT group_id, min_by(topic, (log_timestamp, topic_id, partition)) AS topic,
  min_by(partition, (log_timestamp, topic_id, partition)) AS partition, min(log_timestamp) AS since,
  CAST(sum(lag) AS BIGINT) AS waiting, list(topic || '-' || partition) AS partitions
FROM waiting
WHERE lag > 0
GROUP BY group_id
