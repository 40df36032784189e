CREATE OR REPLACE VIEW offset_history AS
-- The slot's records, where they took effect (else where they stand), and before them who got the partition.
WITH events AS (
  SELECT *, coalesce(effective_log_offset, log_offset) AS place, NULL AS owner, true AS is_record
  FROM effective_commits
  UNION ALL BY NAME
  SELECT
    offsets_partition,
    group_id,
    topic,
    partition,
    log_offset AS place,
    {
      'member_id': member_id,
      'client_id': client_id,
      'client_host': client_host,
      'released_log_offset': released_log_offset
    } AS owner,
    false AS is_record
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
    last_value(owner IGNORE NULLS) OVER slot AS last_owner
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
        WHEN took_effect THEN {'committed_offset': committed_offset, 'corrected_log_offset': corrected_log_offset}
      END IGNORE NULLS
    ) OVER slot AS before,
    lead(CASE WHEN took_effect THEN log_offset END IGNORE NULLS) OVER slot AS next_log_offset,
    lead(CASE WHEN took_effect THEN effective_timestamp END IGNORE NULLS) OVER slot AS next_timestamp,
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
WHERE is_record;

COMMENT ON VIEW offset_history IS 'Records of type 0 and 1, and what each did: which offset it replaced, until when it stood, and whose the partition was then. By the rules of Kafka 3.8 and newer, whatever the audits used. Filter by offsets_partition and group_id: on time alone it sorts the table';
COMMENT ON COLUMN offset_history.audit_id IS 'The audit that read the record (table audits)';
COMMENT ON COLUMN offset_history.offsets_partition IS 'Partition of __consumer_offsets';
COMMENT ON COLUMN offset_history.log_offset IS 'Place of the record in that partition''s log';
COMMENT ON COLUMN offset_history.log_timestamp IS 'Time in the record; null: the record has none';
COMMENT ON COLUMN offset_history.group_id IS 'Group';
COMMENT ON COLUMN offset_history.topic IS 'Topic';
COMMENT ON COLUMN offset_history.partition IS 'Partition of the topic';
COMMENT ON COLUMN offset_history.committed_offset IS 'Offset that the group committed; null: tombstone';
COMMENT ON COLUMN offset_history.leader_epoch IS 'Leader epoch of the record before it; null: not given';
COMMENT ON COLUMN offset_history.metadata IS 'Text the client left with it, '''' is normal; null: tombstone';
COMMENT ON COLUMN offset_history.commit_timestamp IS 'Time of the commit; null: tombstone, none, or one that no TIMESTAMP can hold';
COMMENT ON COLUMN offset_history.expire_timestamp IS 'When it shall expire (clients before 2.1); null: not given';
COMMENT ON COLUMN offset_history.topic_id IS 'Topic id; null: not logged';
COMMENT ON COLUMN offset_history.record_type IS 'Type of the record: 0 or 1';
COMMENT ON COLUMN offset_history.value_version IS 'Version of the value; null: tombstone';
COMMENT ON COLUMN offset_history.producer_id IS 'Producer; null: none';
COMMENT ON COLUMN offset_history.producer_epoch IS 'Its epoch; null: none';
COMMENT ON COLUMN offset_history.is_transactional IS 'The record is part of a transaction';
COMMENT ON COLUMN offset_history.outcome IS 'committed, aborted or pending: the marker that ended its transaction has come, or not; null: no transaction, or a partition that was read again no longer held it. It does not say that this was the committed offset';
COMMENT ON COLUMN offset_history.marker_offset IS 'Place of that marker; null: no transaction, or none has come';
COMMENT ON COLUMN offset_history.raw_key IS 'Key''s bytes, only where the columns do not say everything';
COMMENT ON COLUMN offset_history.raw_value IS 'Value''s bytes, only where the columns do not say everything';
COMMENT ON COLUMN offset_history.effective_log_offset IS 'Where it came into effect: a tombstone and a value without a producer at its own place, a value of a transaction at the COMMIT marker; null: never, or not yet';
COMMENT ON COLUMN offset_history.effective_timestamp IS 'Log time of the record there; null: as before, or it has none that is believed (last_audit.believed_until)';
COMMENT ON COLUMN offset_history.took_effect IS 'It became the committed offset (a tombstone: removed it); false: aborted, pending, or a record further on in the log was in effect already';
COMMENT ON COLUMN offset_history.previous_committed_offset IS 'Committed offset before it took effect; null: there was none, or it took no effect';
COMMENT ON COLUMN offset_history.valid_to IS 'When the next one took effect, or the next time that is known (in a log without times: when the last audit began); null: still, or it took no effect';
COMMENT ON COLUMN offset_history.owner_member_id IS 'Member to whom the partition was assigned then: the log does not say who committed; null: nobody, or not known (streams)';
COMMENT ON COLUMN offset_history.owner_client_id IS 'Its client.id; null: as before, or not logged';
COMMENT ON COLUMN offset_history.owner_client_host IS 'Its host as the broker saw it; null: as before, or not logged';
