-- Share-group state that DeleteRecords took before audit 1 read it is missing, and so is a corrupt batch of the transaction
-- log. The list of share partitions is in __consumer_offsets, of which audits 1 and 2 lack a record each.
INSERT INTO audits (audit_id, status, source, started_at, partitions) VALUES
  (1, 'finished', 'segments', h(100), [
    struct_insert(part(1, 0, 10, 6), topic := '__share_group_state', newest_log_timestamp := h(20)),
    struct_insert(part(1, 0, 10, 10), topic := '__transaction_state', newest_log_timestamp := h(20)),
    struct_insert(part(1, 0, 2, 1), topic := NULL::VARCHAR, newest_log_timestamp := h(20))]),
  (2, 'finished', 'segments', h(100), [
    struct_insert(part(1, 10, 15, 5), topic := '__share_group_state', newest_log_timestamp := h(30)),
    struct_insert(part(1, 10, 15, 5), topic := '__transaction_state', newest_log_timestamp := h(30)),
    struct_insert(part(1, 2, 4, 1), topic := NULL::VARCHAR, newest_log_timestamp := h(30))]),
  (3, 'finished', 'segments', h(100), [
    struct_insert(part(1, 15, 16, 1), topic := '__share_group_state', newest_log_timestamp := h(40)),
    struct_insert(part(1, 15, 16, 1), topic := '__transaction_state', newest_log_timestamp := h(40)),
    struct_insert(part(1, 4, 6, 2), topic := NULL::VARCHAR, newest_log_timestamp := h(40))]);
INSERT INTO state_quarantine (audit_id, log, state_partition, reason, log_offset, log_timestamp) VALUES
  (1, '__transaction_state', 1, 'corrupt_batch', 9, NULL);
INSERT INTO share_group_state_records (record_type, group_id, topic_id, partition, log_offset, log_timestamp, value) VALUES
  (0, 'g', 'A', 0, 10, h(10), '{"startOffset": 3}'), (0, 'g', 'A', 0, 40, h(40), '{"startOffset": 3}');
INSERT INTO transaction_state_records (transactional_id, log_offset, log_timestamp) VALUES ('x', 10, h(10)), ('x', 40, h(40));
INSERT INTO group_records (offsets_partition, group_id, record_type, log_offset, log_timestamp, value) VALUES
  (1, 'g', 15, 0, h(10), listing([], [0])), (1, 'g', 15, 5, h(40), listing([], [0]));

SELECT hour, known FROM (VALUES (9), (10), (19), (20), (40), (41)) AS moments(hour), state_known_as_of(h(hour));
VALUES (9, 'before'), (9, 'before'), (10, 'incomplete'), (10, 'incomplete'), (19, 'incomplete'), (19, 'incomplete'),
  (20, 'complete'), (20, 'complete'), (40, 'complete'), (40, 'complete'), (41, 'after'), (41, 'after');

-- Share partitions are known as far as both logs are.
SELECT hour, known FROM (VALUES (19), (25), (35)) AS moments(hour), share_partitions_as_of(h(hour));
VALUES (19, 'incomplete'), (25, 'incomplete'), (35, 'complete');

SELECT known_as_of(h(25)), known_as_of(h(35));
VALUES ('incomplete', 'complete');

INSERT INTO checkpoints (offsets_partition, reason, log_offset) VALUES (1, 'keep', 6);

SELECT * FROM share_partitions_as_of(h(35));
ERROR partition 1 of __consumer_offsets below log offset 6 .* ask for a later time;

SELECT known_as_of(h(35));
VALUES ('reduced');
