-- Records that were delivered again, by day, at least
-- day Day (UTC); group_id Group; redeliveries Deliveries after the first :count; records Records :count;
-- delivery_count Most deliveries of one :count

SELECT CAST(CAST(day AS DATE) AS STRING) AS day, group_id,
  CAST(sum(redeliveries) AS BIGINT) AS redeliveries,
  CAST(sum(records) AS BIGINT) AS records,
  max(delivery_count) AS delivery_count
FROM redeliveries
GROUP BY CAST(CAST(day AS DATE) AS STRING), group_id
ORDER BY day DESC NULLS LAST, redeliveries DESC, group_id
