-- batch(first, last, state, count): 0 available, 2 acknowledged, 3 archiving, 4 archived. Group `g` allows 5
-- deliveries, `own` 2 by its own configuration, `gone` does not exist any more. `id of late` has no name.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(40));
INSERT INTO topics (topic_id, topic) VALUES ('1', 'orders'), ('2', 'mails');
INSERT INTO groups (group_id, group_type) VALUES ('g', 'share'), ('own', 'share');
INSERT INTO cluster_facts (kind, name, value, source, broker, group_id) VALUES
  ('broker_config', 'group.share.delivery.count.limit', '5', 'default', 1, NULL),
  ('group_config', 'share.delivery.count.limit', '2', 'set', NULL, 'own'),
  ('group_config', 'errors.deadletterqueue.topic.name', 'dlq.own', 'set', NULL, 'own');
INSERT INTO share_group_state_records (group_id, topic_id, partition, log_offset, log_timestamp, record_type, value) VALUES
  -- 3 to 6 rejected, 7 after five deliveries; a snapshot repeats them and splits the first; 8 follows later.
  ('g', '1', 0, 1, h(1), 1, stored(0, [batch(0, 2, 2, 1), batch(3, 6, 4, 1), batch(7, 7, 4, 5)])),
  ('g', '1', 0, 2, h(2), 0, stored(0, [batch(3, 4, 4, 1), batch(5, 6, 4, 1), batch(7, 7, 4, 5)])),
  ('g', '1', 0, 3, h(3), 1, stored(0, [batch(7, 8, 4, 5), batch(9, 9, 0, 4)])),
  -- The same offsets of another partition, and of another topic.
  ('g', '1', 1, 4, h(4), 1, stored(0, [batch(7, 8, 4, 1)])),
  ('g', '2', 0, 5, NULL, 1, stored(0, [batch(7, 8, 4, 1)])),
  -- Given up, and later in the queue; 5 never.
  ('own', '1', 0, 6, h(6), 1, stored(0, [batch(4, 5, 3, 2)])),
  ('own', '1', 0, 7, h(7), 1, stored(0, [batch(4, 4, 4, 2)])),
  -- A time that does not count, the reach of BIGINT, and batches that hold nothing.
  ('gone', 'late', 0, 8, h(999), 1, stored(0, [batch(1, 1, 4, 3), batch(9, 3, 4, 1), batch(2, 9223372036854775807, 4, 1)])),
  ('gone', 'late', 0, 9, h(9), 0, NULL);

SELECT group_id, topic, topic_id, partition, first_offset, last_offset, records, delivery_count, reason, delivery_state,
  queue_topic, given_up_at, log_offset
FROM dead_letters;
VALUES ('g', 'orders', '1', 0, 3, 6, 4, 1, 'rejected_or_gap', 'archived', NULL, h(1), 1),
  ('g', 'orders', '1', 0, 7, 7, 1, 5, 'attempts_used_up', 'archived', NULL, h(1), 1),
  ('g', 'orders', '1', 0, 8, 8, 1, 5, 'attempts_used_up', 'archived', NULL, h(3), 3),
  ('g', 'orders', '1', 1, 7, 8, 2, 1, 'rejected_or_gap', 'archived', NULL, h(4), 4),
  ('g', 'mails', '2', 0, 7, 8, 2, 1, 'rejected_or_gap', 'archived', NULL, NULL, 5),
  ('own', 'orders', '1', 0, 4, 4, 1, 2, 'attempts_used_up', 'archived', 'dlq.own', h(6), 6),
  ('own', 'orders', '1', 0, 5, 5, 1, 2, 'attempts_used_up', 'archiving', 'dlq.own', h(6), 6),
  ('gone', NULL, 'late', 0, 1, 1, 1, 3, NULL, 'archived', NULL, NULL, 8);
