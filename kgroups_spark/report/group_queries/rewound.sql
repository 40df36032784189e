WITH rewound AS (
  SELECT
    offsets_partition, log_offset, event_index, group_id, topic, partition, event_timestamp, cause, offset_before,
    offset_after
  FROM group_events
  WHERE event = 'offset_rewound' AND group_id = :group_id AND event_timestamp BETWEEN :since AND :until
),
-- The newest owner.
owners AS (
  SELECT offsets_partition, rewound.log_offset, event_index, client_id AS owner_before, valid_to AS owned_until
  FROM rewound
  JOIN partition_owners AS owner USING (offsets_partition, group_id, topic, partition)
  WHERE owner.log_offset < rewound.log_offset
  QUALIFY row_number() OVER (
    PARTITION BY offsets_partition, rewound.log_offset, event_index ORDER BY owner.log_offset DESC, owner.member_id
  ) = 1
),
-- The first commit at or after the offset that had been reached before.
caught_up AS (
  SELECT offsets_partition, rewound.log_offset, event_index, effective_timestamp AS caught_up_at,
    owner_client_id AS owner_after
  FROM rewound
  JOIN offset_history AS history USING (offsets_partition, group_id, topic, partition)
  WHERE history.group_id = :group_id AND took_effect AND effective_log_offset > rewound.log_offset
    AND committed_offset >= rewound.offset_before
  QUALIFY row_number() OVER (
    PARTITION BY offsets_partition, rewound.log_offset, event_index ORDER BY effective_log_offset, history.log_offset
  ) = 1
)
SELECT rewound.topic, rewound.partition, rewound.event_timestamp, rewound.cause, rewound.offset_before,
  rewound.offset_after,
  -- A client may commit any offset, so the difference need not be a BIGINT.
  CAST(least(CAST(rewound.offset_before AS DECIMAL(38, 0)) - rewound.offset_after, 9223372036854775807) AS BIGINT)
    AS read_again,
  owners.owner_before, owners.owned_until, caught_up.caught_up_at, caught_up.owner_after
FROM rewound
LEFT JOIN owners USING (offsets_partition, log_offset, event_index)
LEFT JOIN caught_up USING (offsets_partition, log_offset, event_index)
ORDER BY rewound.topic, rewound.partition, rewound.log_offset
