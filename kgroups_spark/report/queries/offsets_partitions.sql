SELECT offsets_partition, commits_per_hour, records, live_records, garbage_records, tombstones, bytes, open_transactions
FROM topic_health
ORDER BY offsets_partition
