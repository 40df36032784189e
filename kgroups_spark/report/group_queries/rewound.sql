WITH rewound AS (
  SELECT
    offsets_partition, group_id, topic, partition, event_timestamp, log_offset, cause, offset_before, offset_after
  FROM group_events
  WHERE event = 'offset_rewound' AND group_id = :group_id AND event_timestamp BETWEEN :since AND :until
),
owners AS (
  SELECT
    rewound.log_offset,
    max_by(owner.client_id, owner.log_offset) AS owner_before,
    max_by(owner.valid_to, owner.log_offset) AS owned_until
  FROM rewound
  JOIN partition_owners AS owner
    ON owner.offsets_partition = rewound.offsets_partition
    AND owner.group_id = rewound.group_id
    AND owner.topic = rewound.topic
    AND owner.partition = rewound.partition
    AND owner.log_offset < rewound.log_offset
  GROUP BY rewound.log_offset
),
-- The first commit at or after the offset that had been reached before.
caught_up AS (
  SELECT
    rewound.log_offset,
    min(history.effective_timestamp) AS caught_up_at,
    min_by(history.owner_client_id, history.effective_log_offset) AS owner_after
  FROM rewound
  JOIN offset_history AS history
    ON history.offsets_partition = rewound.offsets_partition
    AND history.group_id = rewound.group_id
    AND history.topic = rewound.topic
    AND history.partition = rewound.partition
    AND history.took_effect
    AND history.effective_log_offset > rewound.log_offset
    AND history.committed_offset >= rewound.offset_before
  WHERE history.group_id = :group_id
  GROUP BY rewound.log_offset
)
SELECT
  rewound.topic,
  rewound.partition,
  rewound.event_timestamp,
  rewound.cause,
  rewound.offset_before,
  rewound.offset_after,
  -- A client may commit any offset, so the difference need not be a BIGINT.
  CAST(least(CAST(rewound.offset_before AS DECIMAL(38, 0)) - rewound.offset_after, 9223372036854775807) AS BIGINT)
    AS read_again,
  owners.owner_before,
  owners.owned_until,
  caught_up.caught_up_at,
  caught_up.owner_after
FROM rewound
LEFT JOIN owners ON owners.log_offset = rewound.log_offset
LEFT JOIN caught_up ON caught_up.log_offset = rewound.log_offset
ORDER BY rewound.topic, rewound.partition, rewound.log_offset
