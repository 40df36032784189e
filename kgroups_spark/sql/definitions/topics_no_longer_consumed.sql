-- Topics that a group with members has committed offsets of, and to which none of its members subscribes any more, by the rules of the audit's release: their lag is no lag
--
-- offsets_partition, group_id, group_type, state of groups
-- topic of committed_offsets
-- offset_count: Committed offsets of the topic
-- last_commit_at: Newest commit among them; null: none has a time
-- kept_until TIMESTAMP: When the last of them expires, if the group stays as it is; null: never

SELECT
  groups.offsets_partition,
  groups.group_id,
  groups.group_type,
  groups.state,
  expiry.topic,
  count(*) AS offset_count,
  max(committed.commit_timestamp) AS last_commit_at,
  CASE WHEN count(expiry.expires_at) = count(*) THEN max(expiry.expires_at) END AS kept_until
FROM offset_expiry AS expiry
JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
JOIN committed_offsets AS committed
  ON committed.offsets_partition = expiry.offsets_partition
  AND committed.group_id = expiry.group_id
  AND committed.topic = expiry.topic
  AND committed.partition = expiry.partition
WHERE groups.member_count > 0
  -- The reasons that follow "subscribed" and "pending_transaction" in the brokers' order.
  AND expiry.reason IN (
    'within_retention', 'retention_passed', 'before_expire_timestamp', 'expire_timestamp_passed', 'clean_up_fails'
  )
GROUP BY groups.offsets_partition, groups.group_id, groups.group_type, groups.state, expiry.topic
