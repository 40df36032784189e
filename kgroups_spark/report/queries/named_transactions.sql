-- Open transactions, the longest open first
-- transactional_id Transactional id; producer_id- Producer id; state State; start_timestamp- Began (UTC) :time; age
-- Age; timeout Timeout; topic_partitions Partitions written to :count; groups- Groups :count; offsets- Offsets :count

SELECT ids.transactional_id, ids.producer_id, ids.state, ids.timeout_ms, ids.start_timestamp,
  cardinality(ids.topic_partitions) AS topic_partitions,
  count(DISTINCT pending.group_id) AS groups,
  count(pending.log_offset) AS offsets
FROM transactional_ids AS ids
LEFT JOIN pending_offsets AS pending ON pending.producer_id = ids.producer_id
WHERE ids.state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort', 'PrepareEpochFence')
GROUP BY ALL
ORDER BY ids.start_timestamp NULLS LAST, ids.transactional_id
