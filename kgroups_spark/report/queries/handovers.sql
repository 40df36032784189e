-- The view handovers for the last day alone: it would sort all commits of the lake.
WITH spans AS (
  SELECT
    *,
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
    moved.group_id,
    moved.topic,
    max(moved.valid_from) AS handed_over_at,
    max(moved.previous.at) AS released_at,
    max(moved.previous.client_id) AS from_client_id,
    max(moved.client_id) AS to_client_id,
    max(commits.log_timestamp) AS last_commit
  FROM moved
  JOIN offset_commits AS commits
    ON commits.offsets_partition = moved.offsets_partition
    AND commits.group_id = moved.group_id
    AND commits.topic = moved.topic
    AND commits.partition = moved.partition
  WHERE commits.log_timestamp > (SELECT as_of FROM last_audit) - INTERVAL '2' DAY
    AND commits.log_offset < moved.log_offset
    AND commits.committed_offset IS NOT NULL
    AND commits.outcome IS DISTINCT FROM 'aborted'
  GROUP BY moved.offsets_partition, moved.group_id, moved.topic, moved.partition, moved.log_offset
)
SELECT
  group_id,
  count(*) AS partitions,
  max_by(topic, epoch_ms(released_at) - epoch_ms(last_commit)) AS topic,
  max_by(from_client_id, epoch_ms(released_at) - epoch_ms(last_commit)) AS from_client_id,
  max_by(to_client_id, epoch_ms(released_at) - epoch_ms(last_commit)) AS to_client_id,
  max(greatest(0, epoch_ms(released_at) - epoch_ms(last_commit))) AS longest_ms,
  max(handed_over_at) AS newest
FROM found
GROUP BY group_id
ORDER BY longest_ms DESC, group_id
LIMIT 50
