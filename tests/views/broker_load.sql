-- Two brokers lead three offsets partitions; the fourth has no leader.
INSERT INTO audits (audit_id, status, as_of) VALUES (2, 'finished', h(30));
INSERT INTO groups (offsets_partition, group_id) VALUES (0, 'a'), (0, 'b'), (1, 'c'), (3, 'd');
INSERT INTO group_members (offsets_partition, group_id, member_id) VALUES (0, 'a', 'm'), (0, 'a', 'n');
INSERT INTO committed_offsets (offsets_partition, group_id, topic, partition) VALUES (0, 'a', 't', 0), (1, 'c', 't', 0);
-- Only the last 24 hours count, not a record stamped later.
INSERT INTO group_traffic (offsets_partition, group_id, hour, commits, bytes) VALUES
  (0, 'a', h(6), 1000, 1000), (0, 'a', h(7), 10, 100), (1, 'c', h(30), 5, 50), (1, 'c', h(31), 999, 999), (3, 'd', h(8), 1, 9);

SELECT * FROM broker_load;
VALUES (NULL, NULL, 3, 4, 2, 2, 16, 159);

INSERT INTO cluster_facts (audit_id, kind, name, value, broker) VALUES
  (1, 'leader', '0', 'old:9092', 9), (2, 'leader', '0', 'one:9092', 1), (2, 'leader', '1', 'one:9092', 1),
  (2, 'leader', '2', 'two:9092', 2), (2, 'leader', '7', NULL, 3), (2, 'broker_config', 'group.max.size', '3', 1);

SELECT * FROM broker_load;
VALUES (1, 'one:9092', 2, 3, 2, 2, 15, 150), (2, 'two:9092', 1, 0, 0, 0, 0, 0), (3, NULL, 1, 0, 0, 0, 0, 0), (NULL, NULL, 1, 1, 0, 0, 1, 9);
