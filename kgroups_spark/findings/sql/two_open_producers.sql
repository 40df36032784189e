-- warning by pending_offsets: two open transactions hold an offset of one partition
-- of a group the first by topic, partition
-- {topic}-{partition} of {group_id} has offsets in open transactions of {producers} producers ({ids:some})[, and so
-- {others:does|do} {others:counted other partition}]: two instances process the same input, or one was not fenced. The
-- later record in the log wins, whichever transaction commits last. Producers that pass groupMetadata() to
-- sendOffsetsToTransaction are fenced by the group (KIP-447)

SELECT offsets_partition, group_id, topic, partition, max(producer_id) AS producer_id, max(log_offset) AS log_offset,
  count(DISTINCT producer_id) AS producers, list(DISTINCT producer_id) AS ids
FROM pending_offsets
GROUP BY offsets_partition, group_id, topic, partition
HAVING count(DISTINCT producer_id) > 1
