-- error by transactional_ids: a transaction is open beyond its own timeout
-- of all partitions
-- The transaction of {transactional_id} (producer {producer_id}) has been Ongoing since {since:time}, and its timeout of
-- {timeout_ms:duration} has passed. The transaction coordinator aborts such transactions every 10 s; partition
-- {state_partition} of __transaction_state has one that does not work. Until the transaction ends, consumers of the partitions that
-- it has written to wait, and so do those that fetch offsets in it. Look at the log of that partition's leader, and let another
-- broker lead it (kafka-leader-election.sh)

-- Brokers look for them every 10 s by default. A minute, because a live log is not read in an instant.
SELECT transactional_id, producer_id, start_timestamp AS since, timeout_ms, state_partition
FROM transactional_ids
WHERE state = 'Ongoing' AND timeout_ms < 2147483647 AND list_contains($state_partitions, state_partition)
  AND epoch_ms(start_timestamp) + timeout_ms + 60000 < epoch_ms($state_known_until)
