-- How long the offsets of each group can be pending at most: the longest transaction timeout of the producers that have had its offsets in a transaction. A consumer that asks for stable offsets waits as long (KIP-447)
--
-- group_id of committed_offsets
-- longest_timeout_ms BIGINT: The longest of them; 2147483647: two-phase, no timeout
-- transactional_id: The transactional id that has it, the first by name
-- transactional_ids: How many ids __transaction_state still has

WITH producers AS (
  SELECT DISTINCT producer_id, unnest(group_ids) AS group_id FROM transaction_markers WHERE transaction_start_offset IS NOT NULL
  UNION
  SELECT producer_id, unnest(group_ids) FROM open_transactions
)
SELECT group_id,
  CAST(max(timeout_ms) AS BIGINT) AS longest_timeout_ms,
  min_by(ids.transactional_id, {'shorter': -timeout_ms, 'name': ids.transactional_id}) AS transactional_id,
  count(DISTINCT ids.transactional_id) AS transactional_ids
FROM producers
JOIN transactional_producers AS names ON names.producer_id = producers.producer_id
JOIN transactional_ids AS ids ON ids.transactional_id = names.transactional_id
GROUP BY group_id
