-- How much of each offsets partition is garbage. Partition 0 was read at once, 1 was read again at its second night, 2 is
-- empty, of 3 the start was cut off, 4 is busy. h(n) is n hours after a full hour.
INSERT INTO audits (audit_id, status, newest_log_timestamp, partitions) VALUES
  (1, 'finished', h(30), [part(0, 0, 100, 100), part(1, 0, 100, 100), part(2, 0, 0, 0, log_start := NULL)]),
  (2, 'finished', h(30), [part(0, 100, 150, 40), part(1, 100, 150, 90, reread := 50)]),
  (3, 'finished', h(30), [part(0, 150, 150, 0), part(1, 150, 160, 10), part(2, 0, 0, 0, log_start := NULL),
    part(3, 40, 60, 20, log_start := 30), part(4, 5, 25, 20, log_start := NULL)]),
  (4, 'running', h(30), [part(0, 150, 999, 999)]);
INSERT INTO group_records
  (offsets_partition, log_offset, record_type, group_id, member_id, value_version, regular_expression, audit_id) VALUES
  (0, 1, 2, 'g', NULL, 0, NULL, 1), (0, 2, 2, 'g', NULL, 0, NULL, 1),
  (0, 3, 2, 'h', NULL, 0, NULL, 1), (0, 4, 2, 'h', NULL, NULL, NULL, 1),
  (0, 5, 5, 'h', 'a', 0, NULL, 1), (0, 6, 5, 'h', 'b', 0, NULL, 1),
  (0, 7, 8, 'h', 'b', NULL, NULL, 1), (0, 8, 8, 'h', 'b', 0, NULL, 1),
  (0, 9, 16, 'h', NULL, 0, 'x', 1), (0, 10, 16, 'h', NULL, 0, 'y', 1),
  (1, 1, 2, 'g', NULL, NULL, NULL, 1), (1, 155, 2, 'g', NULL, NULL, NULL, 3);
INSERT INTO committed_offsets (group_id, topic, partition) VALUES ('g', 't', 0), ('g', 't', 1), ('g', 't', 2), ('g', 't', 3);
INSERT INTO pending_offsets (group_id, topic, partition) VALUES ('g', 't', 9);
INSERT INTO open_transactions (producer_id, offsets_partition, transaction_start_offset, open_since) VALUES
  (7, 0, 90, h(0)), (8, 0, 20, NULL), (9, 3, 50, h(0));
-- In partition 4 the last 24 of more hours count; its record stamped 20 years later is not taken for its last hour.
INSERT INTO group_traffic (offsets_partition, group_id, hour, commits, tombstones, audit_id) VALUES
  (0, 'g', h(0), 30, 5, 1), (0, 'g', h(2), 10, 1, 2), (0, 'g', NULL, 3, 0, 2),
  (1, 'g', h(0), 9, 50, 1), (1, 'g', h(9), 0, 4, 2), (1, 'g', h(9), 0, 3, 3), (4, 'a', h(20 * 8766), 1, 0, 0);
INSERT INTO group_traffic (offsets_partition, group_id, hour, commits, tombstones)
  SELECT 4, unnest(['a', 'b']), h(n), if(n >= 6, 10, 1000), 0 FROM range(30) AS hours (n);

-- Live are 4 committed offsets, 1 pending one, and of the records of groups 6 keys.
SELECT offsets_partition, log_start_offset, end_offset, span, records, bytes, live_records, garbage_records, tombstones,
  open_transactions, oldest_open_transaction_offset, oldest_open_since, oldest_open_producer_id, commits_per_hour
FROM topic_health;
VALUES (0, 0, 150, 150, 140, 1400, 11, 129, 8, 2, 20, NULL, 8, 40e0 / 3),
  (1, 0, 160, 160, 100, 1000, 0, 100, 8, 0, NULL, NULL, NULL, 9e0),
  (2, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL),
  (3, 30, 60, 30, 20, 200, 0, 20, 0, 1, 50, h(0), 9, NULL),
  (4, NULL, 25, 20, 20, 200, 0, 20, 0, 0, NULL, NULL, NULL, 20e0);
