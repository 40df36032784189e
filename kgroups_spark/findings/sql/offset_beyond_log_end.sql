-- warning by topic_offsets (audit_id == $audit_id): committed offsets beyond the end of the topic's log
-- of a group the first by committed_offset - log_end_offset DESC, topic, partition
-- {group_id} will read {topic}-{partition} from offset {committed_offset}, and the log ends at {log_end_offset}[; and so it
-- is with {others:counted other partition}]. The topic was truncated or created again, or the offset is another cluster's
-- (MirrorMaker without translation, an import). A consumer that resumes there is reset: with auto.offset.reset=earliest it
-- reads everything again, with latest it goes on at the end, and with none it fails. The setting is the consumer's, no log
-- has it. Reset the offsets yourself: kafka-consumer-groups.sh --bootstrap-server HOST:PORT --group {group_id:word} --topic
-- {topic:word} --reset-offsets --to-latest --execute

SELECT offsets_partition, group_id, topic, partition, committed_offset, log_end_offset, log_offset,
  commit_timestamp AS since
FROM _with_ends
WHERE committed_offset > log_end_offset
