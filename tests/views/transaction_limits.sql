-- The longest transaction timeout of each group's producers. `g`: of one that is open, and one of an earlier epoch of an id.
-- Near misses: a marker that ended no transaction; a producer of another group; a producer that no id names; two-phase.
INSERT INTO transactional_ids (transactional_id, producer_id, state, timeout_ms, log_offset) VALUES ('short', 1, 'Ongoing', 10000, 1),
  ('long', 2, 'Empty', 900000, 2), ('longest', 3, 'Empty', 2000000, 3), ('two-phase', 4, 'Ongoing', 2147483647, 4), ('also', 5, 'Empty', 900000, 5);
INSERT INTO transaction_state_records (transactional_id, value, log_offset)
  SELECT name, '{"producerId":' || id || '}', id FROM (VALUES ('short', 1), ('long', 2), ('long', 20), ('longest', 3), ('two-phase', 4), ('also', 5)) AS given (name, id);
INSERT INTO open_transactions (producer_id, group_ids) VALUES (1, ['g', 'h']), (4, ['prepared']);
INSERT INTO transaction_markers (producer_id, transaction_start_offset, group_ids, log_offset) VALUES (20, 5, ['g'], 6), (5, 1, ['g'], 5), (3, NULL, ['g'], 7),
  (9, 8, ['nobody'], 9);

SELECT group_id, longest_timeout_ms, transactional_id, transactional_ids FROM transaction_limits;
VALUES ('g', 900000, 'also', 3), ('h', 10000, 'short', 1), ('prepared', 2147483647, 'two-phase', 1);
