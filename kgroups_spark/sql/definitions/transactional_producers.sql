-- All producers of transactional ids that __transaction_state has ever named
--
-- producer_id: Producer
-- transactional_id: transactional.id of the producer

-- A producer id belongs to one transactional id for ever.
SELECT producer_id, min(transactional_id) AS transactional_id
FROM (
  SELECT CAST(json_extract_string(value, '$.producerId') AS BIGINT) AS producer_id, transactional_id
  FROM transaction_state_records
  WHERE value IS NOT NULL
)
GROUP BY producer_id
