-- warning by large_records, before (finding == "group_record_near_limit"): a group's record is close to the broker's size limit
--
-- The {record_name} record of {group_id} has {size_bytes:size}; with its default, message.max.bytes, a broker takes batches
-- of 1.0 MB. If it grows beyond that, every rebalance of the group fails for all members, with only an unknown server
-- error. Use fewer members or topics, an assignor with less user data, or raise max.message.bytes of __consumer_offsets

-- The last large record, as long as it is the newest about the group or one of its members.
WITH large AS (
  SELECT offsets_partition, group_id, log_offset, record_name, size_bytes, NULL AS detail,
    CASE WHEN log_timestamp BETWEEN -62135596800000 AND 253402300799999 THEN make_timestamptz(log_timestamp * 1000) END
      AS since
  FROM large_records
  UNION ALL
  SELECT offsets_partition, group_id, log_offset, NULL, NULL, detail, since
  FROM before
  WHERE finding = 'group_record_near_limit'
    AND (offsets_partition, log_offset) NOT IN (SELECT (offsets_partition, log_offset) FROM large_records)
)
SELECT *
FROM large
WHERE (offsets_partition, log_offset) IN (
  SELECT (offsets_partition, log_offset) FROM groups
  UNION ALL
  SELECT (offsets_partition, log_offset) FROM group_members
)
QUALIFY row_number() OVER (PARTITION BY offsets_partition, group_id ORDER BY log_offset DESC) = 1
