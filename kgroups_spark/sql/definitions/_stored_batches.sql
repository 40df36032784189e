-- Each batch of each record of __share_group_state. Each snapshot repeats those before it.

SELECT state_partition, group_id, topic_id, partition, log_offset, log_timestamp, batch."firstOffset" AS begins,
  batch."lastOffset" AS ends, batch."deliveryState" AS state, batch."deliveryCount" AS delivery_count
FROM (
  SELECT *,
    unnest(from_json(
      value,
      '{"stateBatches": [
        {"firstOffset": "BIGINT", "lastOffset": "BIGINT", "deliveryState": "INTEGER", "deliveryCount": "INTEGER"}
      ]}'
    )."stateBatches") AS batch
  FROM main.share_group_state_records
  WHERE value IS NOT NULL
)
WHERE batch."lastOffset" BETWEEN batch."firstOffset" AND 9223372036854775806
