-- Share groups with committed offsets, and what never expires in a partition whose clean-up fails at them, else null.
SELECT offsets_partition, group_id, offsets, log_offset, kept_offsets, kept_groups
FROM (
  SELECT offsets_partition, group_id, count(*) AS offsets, max(committed_offsets.log_offset) AS log_offset
  FROM committed_offsets JOIN groups USING (offsets_partition, group_id)
  WHERE group_type = 'share'
  GROUP BY ALL
)
LEFT JOIN (
  SELECT offsets_partition, CAST(sum(offsets) AS BIGINT) AS kept_offsets, CAST(sum(groups) AS BIGINT) AS kept_groups
  FROM (
    SELECT offsets_partition, 1 AS offsets, 0 AS groups FROM offset_expiry WHERE reason = 'clean_up_fails'
    UNION ALL
    SELECT offsets_partition, 0, 1 FROM group_expiry WHERE reason = 'clean_up_fails'
  )
  GROUP BY ALL
) USING (offsets_partition)
