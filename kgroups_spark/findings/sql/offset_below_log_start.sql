-- error by topic_offsets (audit_id == $audit_id): committed offsets whose records the topic has already deleted
-- of a group the first by log_start_offset - committed_offset DESC, topic, partition
-- {group_id} will read {topic}-{partition} from offset {committed_offset}, and the log starts at {log_start_offset}[; and so
-- it is with {others:counted other partition}]: up to {lost:counted record} {lost:was|were} deleted unread. A consumer
-- that resumes there is reset: to the log's start with auto.offset.reset=earliest, to its end with latest (then
-- what the log still has is never read either), and with none it fails. The setting is the consumer's, no log has it. Keep
-- the topic's records longer (retention.ms, retention.bytes), or start the group earlier

SELECT offsets_partition, group_id, topic, partition, committed_offset, log_start_offset, log_offset,
  commit_timestamp AS since,
  CAST(sum(log_start_offset - committed_offset) OVER (PARTITION BY offsets_partition, group_id) AS BIGINT) AS lost
FROM _with_ends
WHERE committed_offset < log_start_offset
