-- Configurations of groups: own ones, those of two brokers, those that could not be read.
INSERT INTO groups (offsets_partition, group_id, group_type) VALUES (0, 'c', 'consumer'), (1, 'mute', 'consumer'),
  (2, 's', 'share'), (3, 'k', 'classic'), (0, 'split', 'streams'), (5, 'split', 'streams');
INSERT INTO group_members (offsets_partition, group_id, member_id, session_timeout_ms) VALUES
  (0, 'c', 'm', NULL), (0, 'c', 'upgrading', 30000), (1, 'mute', 'm', NULL), (2, 's', 'm', NULL), (3, 'k', 'm', 45000),
  (0, 'split', 'm', NULL);

SELECT count(*) FROM group_settings;
VALUES (0);

SELECT session_timeout_ms, heartbeat_interval_ms, count(*) FROM member_timeouts GROUP BY ALL;
VALUES (NULL, NULL, 4), (30000, NULL, 1), (45000, NULL, 1);

INSERT INTO cluster_facts (audit_id, kind, name, value, source, broker, group_id) VALUES
  (1, 'broker_config', 'group.consumer.max.size', '5', 'set', 1, NULL),
  (2, 'broker_config', 'group.consumer.max.size', '7', 'default', 1, NULL),
  (2, 'broker_config', 'group.consumer.max.size', '7', 'default', 2, NULL),
  (2, 'broker_config', 'group.consumer.session.timeout.ms', '45000', 'default', 1, NULL),
  (2, 'broker_config', 'group.consumer.heartbeat.interval.ms', '5000', 'default', 1, NULL),
  (2, 'broker_config', 'group.share.session.timeout.ms', '45000', 'default', 1, NULL),
  (2, 'broker_config', 'group.share.session.timeout.ms', '50000', 'set', 2, NULL),
  (2, 'broker_config', 'group.streams.session.timeout.ms', '45001', 'set', 2, NULL),
  (2, 'broker_config', 'group.max.size', '9', 'set', 2, NULL),
  (2, 'broker_config', 'group.initial.rebalance.delay.ms', '9', 'set', 2, NULL),
  (2, 'broker_config', 'offsets.retention.minutes', '9', 'set', 2, NULL),
  (2, 'group_config', 'consumer.session.timeout.ms', '60000', 'set', NULL, 'c'),
  (2, 'group_config', 'consumer.session.timeout.ms', '60000', 'set', NULL, 'nobody'),
  (2, 'group_config', 'share.auto.offset.reset', 'earliest', 'set', NULL, 's'),
  (2, 'group_config', NULL, NULL, NULL, NULL, 'mute'), (2, 'feature', 'group.version', '1', NULL, NULL, NULL);

SELECT * FROM group_settings;
VALUES (0, 'c', 'consumer', 'consumer.max.size', '7', 'default'),
  (0, 'c', 'consumer', 'consumer.session.timeout.ms', '60000', 'group'),
  (0, 'c', 'consumer', 'consumer.heartbeat.interval.ms', '5000', 'default'),
  (1, 'mute', 'consumer', 'consumer.max.size', '7', 'default'),
  (1, 'mute', 'consumer', 'consumer.session.timeout.ms', NULL, NULL),
  (1, 'mute', 'consumer', 'consumer.heartbeat.interval.ms', NULL, NULL),
  (2, 's', 'share', 'share.session.timeout.ms', NULL, NULL), (2, 's', 'share', 'share.auto.offset.reset', 'earliest', 'group'),
  (3, 'k', 'classic', 'max.size', '9', 'set'),
  (0, 'split', 'streams', 'streams.session.timeout.ms', '45001', 'set'),
  (5, 'split', 'streams', 'streams.session.timeout.ms', '45001', 'set'),
  (NULL, 'nobody', NULL, 'consumer.session.timeout.ms', '60000', 'group');

SELECT group_id, member_id, session_timeout_ms, heartbeat_interval_ms FROM member_timeouts;
VALUES ('c', 'm', 60000, 5000), ('c', 'upgrading', 30000, NULL), ('mute', 'm', NULL, NULL), ('s', 'm', NULL, NULL),
  ('k', 'm', 45000, NULL), ('split', 'm', 45001, NULL);

-- It could not be read which groups have their own.
INSERT INTO cluster_facts (audit_id, kind, name, value, source, broker, group_id) VALUES
  (2, 'group_config', NULL, NULL, NULL, NULL, NULL);

SELECT group_id, value FROM group_settings WHERE name LIKE '%.session.timeout.ms';
VALUES ('c', '60000'), ('nobody', '60000'), ('mute', NULL), ('s', NULL), ('split', NULL), ('split', NULL);
