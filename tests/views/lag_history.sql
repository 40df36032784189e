-- Audits 1, 3, 4 and 5 were live, a day after each other; 2 read segments, 6 has not finished.
INSERT INTO audits (audit_id, status, partitions) VALUES
  (1, 'finished', [struct_insert(part(0, 0, 10, 10), topic := NULL::VARCHAR), struct_insert(part(7, 0, 5, 5), topic := '__share_group_state')]),
  (2, 'finished', [struct_insert(part(0, 10, 15, 5), topic := NULL::VARCHAR)]),
  (3, 'finished', [struct_insert(part(0, 15, 20, 5), topic := NULL::VARCHAR), struct_insert(part(7, 5, 15, 10), topic := '__share_group_state')]),
  (4, 'finished', [struct_insert(part(0, 20, 30, 10), topic := NULL::VARCHAR), struct_insert(part(7, 15, 30, 5), topic := '__share_group_state')]),
  (5, 'finished', [struct_insert(part(0, 30, 40, 10), topic := NULL::VARCHAR), struct_insert(part(7, 30, 40, 5), topic := '__share_group_state')]),
  (6, 'running', [struct_insert(part(0, 40, 99, 10), topic := NULL::VARCHAR)]);
-- g commits, loses its offset by a tombstone, and commits again. In t-1 a transaction commits 7 at its marker, in t-2 such
-- an offset comes too late. Partition 1 of `gone` exists no longer. `reset` committed -1.
INSERT INTO offset_commits (offsets_partition, log_offset, group_id, topic, partition, committed_offset, producer_id, is_transactional, outcome, marker_offset) VALUES
  (0, 1, 'g', 't', 0, 40, NULL, false, NULL, NULL), (0, 5, 'g', 't', 0, 60, NULL, false, NULL, NULL),
  (0, 12, 'g', 't', 0, 150, NULL, false, NULL, NULL), (0, 25, 'g', 't', 0, NULL, NULL, false, NULL, NULL),
  (0, 35, 'g', 't', 0, 150, NULL, false, NULL, NULL), (0, 3, 'g', 't', 1, 7, 9, true, 'committed', 15),
  (0, 4, 'g', 't', 2, 7, 9, true, 'committed', 15), (0, 6, 'g', 't', 2, 9, NULL, false, NULL, NULL),
  (0, 7, 'g', 'gone', 1, 9, NULL, false, NULL, NULL), (0, 8, 'reset', 't', 0, -1, NULL, false, NULL, NULL);
INSERT INTO transaction_markers (offsets_partition, log_offset, producer_id, outcome, transaction_start_offset) VALUES (0, 15, 9, 'committed', 3);
-- A share partition moves from 5 to 20 and ends by a tombstone; another one was no longer in the log when it was read again.
INSERT INTO share_group_state_records (state_partition, log_offset, record_type, group_id, topic_id, partition, value) VALUES
  (7, 0, 0, 's', 'T', 0, '{"startOffset": 5, "deliveryCompleteCount": 2}'),
  (7, 1, 0, 's', 'T', 1, '{"startOffset": 5, "deliveryCompleteCount": -1}'),
  (7, 2, 0, 's', 'T', 2, '{"startOffset": -1, "deliveryCompleteCount": 0}'),
  (7, 4, 1, 's', 'T', 0, '{"startOffset": -1, "deliveryCompleteCount": 3}'),
  (7, 12, 1, 's', 'T', 0, '{"startOffset": 20, "deliveryCompleteCount": 0}'), (7, 22, 0, 's', 'T', 0, NULL);
INSERT INTO state_log_state (audit_id, log, state_partition, entry_type, payload) VALUES
  (5, '__share_group_state', 7, 'gone', '[15, "s", "T", 1]');
INSERT INTO topics (topic_id, topic) VALUES ('T', 't');
INSERT INTO topic_offsets (audit_id, topic, partition, topic_id, log_start_offset, log_end_offset, status, seen_at) VALUES
  (1, 't', 0, 'T', 0, 100, 'ok', h(0)), (3, 't', 0, 'T', 10, 140, 'ok', h(24)), (4, 't', 0, 'T', 70, 160, 'ok', h(48)),
  (5, 't', 0, 'T', 155, 200, 'ok', h(72)), (1, 't', 1, 'T', 0, 7, 'ok', h(0)), (3, 't', 1, 'T', 0, 7, 'ok', h(24)),
  (3, 't', 2, 'T', 0, 9, 'ok', h(24)), (5, 't', 2, 'T', 0, 19, 'ok', h(72)), (1, 'gone', 1, NULL, 3, 9, 'ok', h(0)),
  (3, 'gone', 1, NULL, NULL, NULL, 'unknown_topic', h(24));

SELECT audit_id, committed_offset, log_start_offset, log_end_offset, lag, records_lost, estimated_lag_ms FROM lag_history
  WHERE group_id = 'g' AND topic = 't' AND partition = 0;
VALUES (1, 60, 0, 100, 40, 0, NULL), (3, 150, 10, 140, -10, 0, 0), (5, 150, 155, 200, 50, 5, 36 * 3600000);

SELECT audit_id, topic, partition, committed_offset, status, lag, records_lost, estimated_lag_ms FROM lag_history
  WHERE group_id = 'g' AND (topic = 'gone' OR partition > 0);
VALUES (3, 't', 1, 7, 'ok', 0, 0, 0), (3, 't', 2, 9, 'ok', 0, 0, 0), (5, 't', 2, 9, 'ok', 10, 0, 48 * 3600000),
  (1, 'gone', 1, 9, 'ok', 0, 0, 0), (3, 'gone', 1, 9, 'unknown_topic', NULL, NULL, NULL);

SELECT audit_id, group_id, is_share, partition, committed_offset, lag, records_lost, estimated_lag_ms FROM lag_history
  WHERE group_id <> 'g';
VALUES (1, 's', true, 0, 5, 92, 0, NULL), (3, 's', true, 0, 20, 120, 0, NULL), (1, 's', true, 1, 5, NULL, 0, NULL),
  (1, 'reset', false, 0, -1, NULL, NULL, NULL), (3, 'reset', false, 0, -1, NULL, NULL, NULL),
  (4, 'reset', false, 0, -1, NULL, NULL, NULL), (5, 'reset', false, 0, -1, NULL, NULL, NULL);
