-- Rate and bloat by partition
-- offsets_partition Partition :count; commits_per_hour Commits an hour :rate; records Records :count; live_records
-- Still current :count; records_per_live Records per current record :rate; tombstones- Tombstones :count; bytes- Size
-- :bytes; open_transactions- Open transactions :count

SELECT offsets_partition, commits_per_hour, records, live_records, garbage_records, tombstones, bytes, open_transactions
FROM topic_health
ORDER BY offsets_partition
