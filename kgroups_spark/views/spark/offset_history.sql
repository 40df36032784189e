CREATE OR REPLACE TEMPORARY VIEW offset_history (
  audit_id COMMENT 'The audit that read the record (table audits)',
  offsets_partition COMMENT 'Partition of __consumer_offsets',
  log_offset COMMENT 'Place of the record in that partition''s log',
  log_timestamp COMMENT 'Time in the record; null: the record has none',
  group_id COMMENT 'Group',
  topic COMMENT 'Topic',
  partition COMMENT 'Partition of the topic',
  committed_offset COMMENT 'Offset that the group committed; null: tombstone',
  leader_epoch COMMENT 'Leader epoch of the record before it; null: not given',
  metadata COMMENT 'Text the client left with it, '''' is normal; null: tombstone',
  commit_timestamp COMMENT 'Time of the commit; null: tombstone, none, or one that no TIMESTAMP can hold',
  expire_timestamp COMMENT 'When it shall expire (clients before 2.1); null: not given',
  topic_id COMMENT 'Topic id; null: not logged',
  record_type COMMENT 'Type of the record: 0 or 1',
  value_version COMMENT 'Version of the value; null: tombstone',
  producer_id COMMENT 'Producer; null: none',
  producer_epoch COMMENT 'Its epoch; null: none',
  is_transactional COMMENT 'The record is part of a transaction',
  outcome COMMENT 'committed, aborted or pending: the marker that ended its transaction has come, or not; null: no transaction, or a partition that was read again no longer held it. It does not say that this was the committed offset',
  marker_offset COMMENT 'Place of that marker; null: no transaction, or none has come',
  raw_key COMMENT 'Key''s bytes, only where the columns do not say everything',
  raw_value COMMENT 'Value''s bytes, only where the columns do not say everything',
  effective_log_offset COMMENT 'Where it came into effect: a tombstone and a value without a producer at its own place, a value of a transaction at the COMMIT marker; null: never, or not yet',
  effective_timestamp COMMENT 'Log time of the record there; null: as before, or it has none that is believed (last_audit.believed_until)',
  took_effect COMMENT 'It became the committed offset (a tombstone: removed it); false: aborted, pending, or a record further on in the log was in effect already',
  previous_committed_offset COMMENT 'Committed offset before it took effect; null: there was none, or it took no effect',
  valid_to COMMENT 'When the next one took effect, or the next time that is known (in a log without times: when the last audit began); null: still, or it took no effect',
  owner_member_id COMMENT 'Member to whom the partition was assigned then: the log does not say who committed; null: nobody, or not known (streams)',
  owner_client_id COMMENT 'Its client.id; null: as before, or not logged',
  owner_client_host COMMENT 'Its host as the broker saw it; null: as before, or not logged'
)
COMMENT 'Records of type 0 and 1, and what each did: which offset it replaced, until when it stood, and whose the partition was then. By the rules of Kafka 3.8 and newer, whatever the audits used. Filter by offsets_partition and group_id: on time alone it sorts the table'
AS
-- The slot's records, where they took effect (else where they stand), and before them who got the partition.
WITH events AS (
  SELECT
    *,
    coalesce(effective_log_offset, log_offset) AS place,
    CAST(
      NULL AS STRUCT<member_id: STRING, client_id: STRING, client_host: STRING, released_log_offset: BIGINT>
    ) AS owner,
    true AS is_record
  FROM effective_commits
  UNION ALL
  SELECT
    NULL,
    offsets_partition,
    NULL,
    NULL,
    group_id,
    topic,
    partition,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    log_offset,
    struct(member_id, client_id, client_host, released_log_offset),
    false
  FROM partition_owners
  WHERE topic IS NOT NULL
),
placed AS (
  SELECT
    *,
    -- Of the records in effect the one with the greatest log offset counts. Of those that one marker puts in effect the
    -- last comes first here, and the others take none.
    effective_log_offset IS NOT NULL
      AND log_offset = max(CASE WHEN effective_log_offset IS NOT NULL THEN log_offset END) OVER slot AS took_effect,
    last_value(owner) IGNORE NULLS OVER slot AS last_owner
  FROM events
  WINDOW slot AS (
    PARTITION BY offsets_partition, group_id, topic, partition
    ORDER BY place, is_record, log_offset DESC, owner.member_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  )
),
chained AS (
  SELECT
    *,
    lag(
      CASE
        WHEN took_effect THEN struct(committed_offset, corrected_log_offset)
      END
    ) IGNORE NULLS OVER slot AS before,
    lead(CASE WHEN took_effect THEN log_offset END) IGNORE NULLS OVER slot AS next_log_offset,
    lead(CASE WHEN took_effect THEN effective_timestamp END) IGNORE NULLS OVER slot AS next_timestamp,
    CASE WHEN last_owner.released_log_offset > place IS NOT false THEN last_owner END AS owner_then
  FROM placed
  WINDOW slot AS (
    PARTITION BY offsets_partition, group_id, topic, partition
    ORDER BY place, is_record, log_offset DESC, owner.member_id
  )
)
SELECT
  audit_id,
  offsets_partition,
  log_offset,
  log_timestamp,
  group_id,
  topic,
  partition,
  committed_offset,
  leader_epoch,
  metadata,
  commit_timestamp,
  expire_timestamp,
  topic_id,
  record_type,
  value_version,
  producer_id,
  producer_epoch,
  is_transactional,
  outcome,
  marker_offset,
  raw_key,
  raw_value,
  effective_log_offset,
  effective_timestamp,
  took_effect,
  CASE
    WHEN took_effect AND before.corrected_log_offset <= place IS NOT true THEN before.committed_offset
  END AS previous_committed_offset,
  -- Where the next one has no time, or a correction ended it: the next time that is known, else its own, the last at
  -- which it is known to have been so. In a log without times: when the last audit began, for by then it was no longer so.
  CASE
    WHEN took_effect AND (next_log_offset IS NOT NULL OR corrected_log_offset IS NOT NULL)
      THEN coalesce(next_timestamp, effective_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to,
  owner_then.member_id AS owner_member_id,
  owner_then.client_id AS owner_client_id,
  owner_then.client_host AS owner_client_host
FROM chained
WHERE is_record
