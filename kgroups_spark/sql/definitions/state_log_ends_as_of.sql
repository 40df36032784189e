-- The end of each partition's log of __share_group_state and __transaction_state as of a moment; a partition without a row ended later and counts as a whole. Fails where kgroups maintain --keep has reduced history there
--
-- argument ts TIMESTAMP: The moment: each partition's log counts up to its first record with a later time; null: all that was read
-- log STRING: __share_group_state or __transaction_state
-- state_partition INT: Partition of that log
-- end_offset BIGINT: First record with a later time: it and the records after it do not count

SELECT log, partition AS state_partition, end_offset FROM ends_as_of(ts, '%_state')
