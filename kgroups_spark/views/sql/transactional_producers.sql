-- Producers of transactional ids, as __transaction_state named them, ever
--
-- producer_id: Producer
-- transactional_id: transactional.id that it was given to

-- A producer id is given to one transactional id, for good.
SELECT producer_id, min(transactional_id) AS transactional_id
FROM (
  SELECT CAST(json_extract_string(value, '$.producerId') AS BIGINT) AS producer_id, transactional_id
  FROM transaction_state_records
  WHERE value IS NOT NULL
)
GROUP BY producer_id
