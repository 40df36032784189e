-- Partitions that changed their owner, and the group's last commit before: the next owner reads again what the previous one processed after it. Share groups, whose members share partitions, and streams groups have none. Filter by offsets_partition and group_id: on time alone it sorts the commits
--
-- offsets_partition, group_id of group_member_versions
-- topic, partition of committed_offsets
-- from_member_id: The previous owner; a static member that returns with another id counts as another owner
-- from_client_id: Its client.id; null: not logged
-- to_member_id: The next owner
-- to_client_id: Its client.id; null: not logged
-- released_timestamp: Log time of the record by which the previous owner no longer had it; null: it has none
-- handover_timestamp: Log time of the record by which the next owner got it; null: it has none
-- committed_offset: Committed offset when the next owner got it, from which it reads on; null: none
-- last_commit_timestamp: When that commit took effect; null: none, or unknown
-- since_last_commit_ms: From last_commit_timestamp to released_timestamp, 0 if it was committed later; null: one is unknown
-- log_offset: The record by which the next owner got it

WITH spans AS (
  SELECT *,
    lag({'member_id': member_id, 'client_id': client_id, 'timestamp': valid_to, 'log_offset': released_log_offset}) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset, released_log_offset NULLS LAST, member_id
    ) AS previous
  FROM partition_owners
  WHERE topic IS NOT NULL
),
events AS (
  SELECT
    offsets_partition, group_id, topic, partition, log_offset AS place, NULL AS commit,
    {'previous': previous, 'member_id': member_id, 'client_id': client_id, 'timestamp': valid_from} AS next
  FROM spans
  WHERE previous.member_id <> member_id AND previous.log_offset <= log_offset
    AND group_id NOT IN (SELECT group_id FROM group_versions WHERE group_type = 'share')
  UNION ALL
  SELECT
    offsets_partition, group_id, topic, partition, effective_log_offset,
    {'committed_offset': committed_offset, 'timestamp': effective_timestamp},
    NULL
  FROM effective_commits
  WHERE effective_log_offset IS NOT NULL
),
placed AS (
  SELECT *,
    last_value(commit IGNORE NULLS) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition
      ORDER BY place, CASE WHEN next IS NULL THEN 0 ELSE 1 END
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS last
  FROM events
)
SELECT
  offsets_partition, group_id, topic, partition,
  next.previous.member_id AS from_member_id, next.previous.client_id AS from_client_id, next.member_id AS to_member_id,
  next.client_id AS to_client_id, next.previous.timestamp AS released_timestamp, next.timestamp AS handover_timestamp,
  last.committed_offset AS committed_offset,
  CASE WHEN last.committed_offset IS NOT NULL THEN last.timestamp END AS last_commit_timestamp,
  CASE
    WHEN last.committed_offset IS NOT NULL
      THEN greatest(0, epoch_ms(next.previous.timestamp) - epoch_ms(last.timestamp))
  END AS since_last_commit_ms,
  place AS log_offset
FROM placed
WHERE next IS NOT NULL
