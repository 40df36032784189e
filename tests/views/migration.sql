-- Classic groups, and whether consumers of KIP-848 can join them. Without an answer of brokers the policy is unknown. `at risk`:
-- of three offsets one was committed a retention of 2 hours ago. `synced`: a member that has never synced has an empty assignment.
-- `over`: one member more than the limit that brokers report in the second query. Groups of other types are not listed.
INSERT INTO audits (audit_id, status, as_of, retention_ms) VALUES (1, 'finished', h(10), 7200000);
INSERT INTO groups (group_id, group_type, state, member_count, protocol_type, protocol, log_offset)
  SELECT *, row_number() OVER () FROM (VALUES ('online', 'classic', 'Stable', 2, 'consumer', 'range'), ('synced', 'classic', 'Stable', 1, 'consumer', 'range'),
    ('streams', 'classic', 'Stable', 1, 'consumer', 'stream'), ('unreadable', 'classic', 'Stable', 1, 'consumer', 'range'),
    ('connect', 'classic', 'Stable', 1, 'connect', 'sessioned'), ('empty', 'classic', 'Empty', 0, 'consumer', NULL),
    ('simple', 'classic', 'Empty', 0, NULL, NULL), ('over', 'classic', 'Stable', 3, 'consumer', 'range'),
    ('new', 'consumer', 'Stable', 1, NULL, NULL)) AS given;
INSERT INTO group_records (group_id, log_offset, record_type, value)
  SELECT group_id, log_offset, record_type, '{"members":[' || members || ']}' FROM (VALUES
    ('online', 1, 2, '{"clientId":"b","subscription":{},"assignment":{"userData":null}},{"clientId":"a","subscription":{},"assignment":{"userData":""}}'),
    ('online', 0, 2, '{"clientId":"old","subscriptionRaw":"AAA"}'), ('synced', 2, 2, '{"clientId":"s","subscription":{},"assignmentRaw":""}'),
    ('streams', 3, 2, '{"clientId":"s","subscription":{},"assignment":{"userData":"AAAA"}}'),
    ('unreadable', 4, 2, '{"clientId":"u","subscriptionRaw":"AAA","assignment":{}}'), ('connect', 5, 2, '{"clientId":"c","subscriptionRaw":"AAA"}'),
    ('over', 8, 2, '{"clientId":"o","subscription":{},"assignment":{}}')) AS given (group_id, log_offset, record_type, members);
INSERT INTO committed_offsets (group_id, topic, partition, commit_timestamp, committed_offset, log_offset)
  VALUES ('online', 't', 0, h(8), 5, 10), ('online', 't', 1, h(8.1), 5, 11), ('online', 't', 2, NULL, 5, 12);

SELECT group_id, converts, reason, clients, policy, offsets_at_risk FROM migration;
VALUES ('online', 'online', NULL, ['a', 'b'], NULL, 1), ('synced', 'online', NULL, ['s'], NULL, 0),
  ('streams', 'when empty', 'user_data', ['s'], NULL, 0), ('unreadable', 'when empty', 'unreadable_subscription', ['u'], NULL, 0),
  ('connect', 'no', 'protocol_type', ['c'], NULL, 0), ('empty', 'when empty', 'no_members', NULL, NULL, 0),
  ('simple', 'when empty', 'no_members', NULL, NULL, 0), ('over', 'online', NULL, ['o'], NULL, 0);

INSERT INTO cluster_facts (audit_id, kind, name, value, source, broker) VALUES
  (1, 'broker_config', 'group.consumer.migration.policy', 'BIDIRECTIONAL', 'set', 1), (1, 'broker_config', 'group.consumer.max.size', '2', 'set', 1),
  (2, 'broker_config', 'group.consumer.migration.policy', 'downgrade', 'set', 1), (2, 'broker_config', 'group.consumer.max.size', '2', 'set', 1),
  (2, 'broker_config', 'group.consumer.max.size', '2', 'set', 2);

SELECT group_id, converts, reason, policy FROM migration WHERE group_id IN ('online', 'over', 'empty', 'streams');
VALUES ('online', 'when empty', 'policy', 'downgrade'), ('over', 'no', 'size', 'downgrade'), ('empty', 'when empty', 'no_members', 'downgrade'),
  ('streams', 'when empty', 'policy', 'downgrade');

INSERT INTO cluster_facts (audit_id, kind, name, value, source, broker) VALUES
  (3, 'broker_config', 'group.consumer.migration.policy', 'upgrade', 'set', 1), (3, 'broker_config', 'group.consumer.migration.policy', 'disabled', 'set', 2);

SELECT group_id, converts, reason, policy FROM migration WHERE group_id IN ('online', 'over', 'streams');
VALUES ('online', 'online', NULL, NULL), ('over', 'online', NULL, NULL), ('streams', 'when empty', 'user_data', NULL);
