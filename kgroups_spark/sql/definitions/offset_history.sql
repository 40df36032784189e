-- Records of type 0 and 1, and the effect of each: the offset that it replaced, the time at which it was replaced itself, and the owner of the partition then. By the rules of Kafka 3.8 and newer, regardless of the audits' release. Filter by offsets_partition and group_id: on time alone it sorts the table
--
-- columns of effective_commits but corrected_log_offset
-- took_effect: It became the committed offset (a tombstone: removed it); false: aborted, pending, or a record later in the log was already in effect
-- previous_committed_offset: Committed offset before it took effect; null: there was none, or it took no effect
-- valid_to: When the next one took effect, or the next known time (in a log without times: the start of the last audit); null: still, or it took no effect
-- owner_member_id: Owner of the partition then (the log does not record who committed); null: no owner
-- owner_client_id: client.id of the owner; null: no owner, or not logged
-- owner_client_host: Host of the owner as the broker saw it; null: no owner, or not logged

-- The slot's records at the log offset where they took effect (else their own), and before them its owners' changes.
WITH events AS (
  SELECT *, coalesce(effective_log_offset, log_offset) AS place, NULL AS owner, true AS is_record
  FROM effective_commits
  UNION ALL
  SELECT
    -- Every other column of effective_commits.
    NULL, offsets_partition,
    NULL, NULL, NULL,
    group_id, topic, partition,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    log_offset AS place,
    {
      'member_id': member_id, 'client_id': client_id, 'client_host': client_host,
      'released_log_offset': released_log_offset
    } AS owner,
    false AS is_record
  FROM partition_owners
  WHERE topic IS NOT NULL
),
placed AS (
  SELECT *,
    -- The record in effect with the highest log offset counts: of those that one marker commits, the last.
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
  SELECT *,
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
SELECT *,
  CASE
    WHEN took_effect AND before.corrected_log_offset <= place IS NOT true THEN before.committed_offset
  END AS previous_committed_offset,
  -- If the next one has no time, or a correction ended it: the next known time, else its own, the last at which it is
  -- known to have been so. In a log without times: the start of the last audit, because it was no longer so by then.
  CASE
    WHEN took_effect AND (next_log_offset IS NOT NULL OR corrected_log_offset IS NOT NULL)
      THEN coalesce(next_timestamp, effective_timestamp, (SELECT max(started_at) FROM last_audit))
  END AS valid_to,
  owner_then.member_id AS owner_member_id, owner_then.client_id AS owner_client_id,
  owner_then.client_host AS owner_client_host
FROM chained
WHERE is_record
