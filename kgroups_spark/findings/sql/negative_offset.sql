-- warning by committed_offsets (committed_offset <= -1): a negative committed offset, which clients read as none
-- of a group the first by topic, partition
-- {group_id} committed {committed_offset} for {topic}-{partition}[, and negative offsets for {others:counted other partition},
-- too]. Brokers store any number, but clients and Kafka's tools read a negative one as no committed offset: a consumer that
-- starts there is reset by its auto.offset.reset. Find the client that committed it, and reset the group to an offset of the
-- log

SELECT offsets_partition, group_id, topic, partition, committed_offset, log_offset, commit_timestamp AS since
FROM committed_offsets
WHERE committed_offset < 0
