-- The window reaches from the start offset to the last stored record: 10 to 13 are 4. Group `g` may have 4, `own` 5.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(1));
INSERT INTO groups (group_id, group_type) VALUES ('g', 'share'), ('own', 'share'), ('unknown', 'classic');
INSERT INTO cluster_facts (kind, name, value, source, broker, group_id) VALUES
  ('broker_config', 'group.share.partition.max.record.locks', '4', 'default', 1, NULL),
  ('group_config', 'share.partition.max.record.locks', '5', 'set', NULL, 'own');
INSERT INTO share_partitions (group_id, topic_id, partition, start_offset) VALUES
  ('g', '1', 0, 10), ('g', '1', 1, 10), ('g', '1', 2, 10), ('g', '1', 3, NULL), ('g', '1', 4, -9223372036854775808),
  ('own', '1', 0, 10), ('unknown', '1', 0, 10);
INSERT INTO share_batches (group_id, topic_id, partition, first_offset, last_offset, delivery_state) VALUES
  ('g', '1', 0, 12, 13, 'acknowledged'), ('g', '1', 1, 12, 12, 'available'), ('g', '1', 1, 13, 13, 'archived'),
  ('g', '1', 2, 12, 12, 'acknowledged'), ('g', '2', 2, 12, 99, 'acknowledged'), ('g', '1', 4, 0, 9223372036854775807, 'acknowledged'),
  ('own', '1', 0, 13, 13, 'archived'), ('unknown', '1', 0, 13, 13, 'archived');

SELECT group_id, partition, window_records, available, record_locks, is_full FROM share_windows;
VALUES ('g', 0, 4, 0, 4, true), ('g', 1, 4, 1, 4, false), ('g', 2, 3, 0, 4, false), ('g', 3, NULL, 0, 4, NULL),
  ('g', 4, NULL, 0, 4, NULL), ('own', 0, 4, 0, 5, false), ('unknown', 0, 4, 0, NULL, NULL);
