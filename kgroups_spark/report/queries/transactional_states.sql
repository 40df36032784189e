-- Transactional ids by state
-- state State; transactional_ids Ids :count; newest_change Newest change (UTC) :time

SELECT state, count(*) AS transactional_ids, min(start_timestamp) AS first_start,
  max(last_update_timestamp) AS newest_change
FROM transactional_ids
GROUP BY state
ORDER BY transactional_ids DESC, state
