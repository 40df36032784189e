-- Topics that a group with members has committed offsets of, and to which none of its members subscribes any more, by the rules of the audit's release: their lag is no lag
--
-- offsets_partition, group_id, group_type, state of groups
-- topic of committed_offsets
-- offset_count: Committed offsets of the topic
-- last_commit_at: Newest commit among them; null: none has a time
-- kept_until TIMESTAMP: When the last of them expires, if the group stays as it is; null: never

SELECT offsets_partition, group_id, group_type, state, topic, count(*) AS offset_count,
  max(commit_timestamp) AS last_commit_at,
  CASE WHEN count(expires_at) = count(*) THEN max(expires_at) END AS kept_until
FROM offset_expiry
JOIN groups USING (offsets_partition, group_id)
JOIN committed_offsets USING (offsets_partition, group_id, topic, partition)
WHERE member_count > 0
  -- The reasons that follow "subscribed" and "pending_transaction" in the brokers' order.
  AND reason IN (
    'within_retention', 'retention_passed', 'before_expire_timestamp', 'expire_timestamp_passed', 'clean_up_fails'
  )
GROUP BY offsets_partition, group_id, group_type, state, topic
