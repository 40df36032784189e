WITH rewound AS (
  SELECT
    offsets_partition, log_offset, event_index, group_id, topic, partition, event_timestamp, cause, offset_before,
    offset_after
  FROM group_events
  WHERE event = 'offset_rewound' AND group_id = :group_id AND event_timestamp BETWEEN :since AND :until
),
-- The newest owner first.
owners AS (
  SELECT rewound.offsets_partition, rewound.log_offset, rewound.event_index, owner.client_id AS owner_before,
    owner.valid_to AS owned_until,
    row_number() OVER (
      PARTITION BY rewound.offsets_partition, rewound.log_offset, rewound.event_index
      ORDER BY owner.log_offset DESC, owner.member_id
    ) AS number
  FROM rewound
  JOIN partition_owners AS owner
    ON owner.offsets_partition = rewound.offsets_partition AND owner.group_id = rewound.group_id
    AND owner.topic = rewound.topic AND owner.partition = rewound.partition AND owner.log_offset < rewound.log_offset
),
-- Commits at or after the offset that had been reached before, the first one first.
caught_up AS (
  SELECT rewound.offsets_partition, rewound.log_offset, rewound.event_index,
    history.effective_timestamp AS caught_up_at, history.owner_client_id AS owner_after,
    row_number() OVER (
      PARTITION BY rewound.offsets_partition, rewound.log_offset, rewound.event_index
      ORDER BY history.effective_log_offset, history.log_offset
    ) AS number
  FROM rewound
  JOIN offset_history AS history
    ON history.offsets_partition = rewound.offsets_partition AND history.group_id = rewound.group_id
    AND history.topic = rewound.topic AND history.partition = rewound.partition
    AND history.took_effect
    AND history.effective_log_offset > rewound.log_offset AND history.committed_offset >= rewound.offset_before
  WHERE history.group_id = :group_id
)
SELECT rewound.topic, rewound.partition, rewound.event_timestamp, rewound.cause, rewound.offset_before,
  rewound.offset_after,
  -- A client may commit any offset, so the difference need not be a BIGINT.
  CAST(least(CAST(rewound.offset_before AS DECIMAL(38, 0)) - rewound.offset_after, 9223372036854775807) AS BIGINT)
    AS read_again,
  owners.owner_before, owners.owned_until, caught_up.caught_up_at, caught_up.owner_after
FROM rewound
LEFT JOIN owners
  ON owners.offsets_partition = rewound.offsets_partition AND owners.log_offset = rewound.log_offset
  AND owners.event_index = rewound.event_index AND owners.number = 1
LEFT JOIN caught_up
  ON caught_up.offsets_partition = rewound.offsets_partition AND caught_up.log_offset = rewound.log_offset
  AND caught_up.event_index = rewound.event_index AND caught_up.number = 1
ORDER BY rewound.topic, rewound.partition, rewound.log_offset
