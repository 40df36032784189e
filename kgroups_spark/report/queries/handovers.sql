-- Partitions that changed their owner in the last 24 hours, the longest since the last commit first
-- group_id Group; partitions Partitions :count; topic- Topic; from_client_id- From; to_client_id- To; longest_s Read
-- again at most (s) :rate; newest- The newest (UTC) :time

-- The view handovers for the last day alone: it would sort all commits of the lake.
WITH spans AS (
  SELECT *,
    lag({'member_id': member_id, 'client_id': client_id, 'at': valid_to, 'log_offset': released_log_offset}) OVER (
      PARTITION BY offsets_partition, group_id, topic, partition ORDER BY log_offset, released_log_offset NULLS LAST, member_id
    ) AS previous
  FROM partition_owners
  WHERE topic IS NOT NULL
    AND (valid_to > (SELECT as_of FROM last_audit) - INTERVAL '1' DAY OR released_log_offset IS NULL)
),
moved AS (
  SELECT offsets_partition, group_id, topic, partition, log_offset, valid_from, client_id, previous
  FROM spans
  WHERE previous.member_id <> member_id AND previous.log_offset <= log_offset
    AND valid_from <= (SELECT believed_until FROM last_audit)
    AND group_id NOT IN (SELECT group_id FROM group_versions WHERE group_type = 'share')
),
-- Those without a commit in the two days are left out.
found AS (
  SELECT
    group_id, topic, partition, valid_from AS handed_over_at, previous.client_id AS from_client_id, client_id AS to_client_id,
    epoch_ms(previous.at) - epoch_ms(max(commits.log_timestamp)) AS since_ms,
    {'ms': since_ms, 'at': handed_over_at, 'topic': topic, 'partition': partition} AS place
  FROM moved
  JOIN offset_commits AS commits USING (offsets_partition, group_id, topic, partition)
  WHERE commits.log_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '2' DAY
    AND commits.log_offset < moved.log_offset AND commits.committed_offset IS NOT NULL
    AND commits.outcome IS DISTINCT FROM 'aborted'
  GROUP BY offsets_partition, group_id, topic, partition, moved.log_offset, valid_from, client_id, previous
)
SELECT group_id, count(*) AS partitions,
  max_by(topic, place) AS topic, max_by(from_client_id, place) AS from_client_id,
  max_by(to_client_id, place) AS to_client_id,
  greatest(0, max(since_ms)) AS longest_ms,
  max(handed_over_at) AS newest
FROM found
GROUP BY group_id
ORDER BY longest_ms DESC, group_id
LIMIT 50
