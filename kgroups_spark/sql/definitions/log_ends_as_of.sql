-- The end of each partition's log of __consumer_offsets as of a moment; a partition without a row ended later and counts as a whole. Fails where kgroups maintain --keep has reduced history there
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- offsets_partition of committed_offsets
-- end_offset BIGINT: First record with a later time: it and the records after it do not count

SELECT partition AS offsets_partition, end_offset FROM ends_as_of(ts, '__consumer_offsets')
