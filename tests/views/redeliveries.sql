-- 24 hours later is another day; a snapshot repeats counts, and lower counts of
-- other offsets are no redelivery.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(99));
INSERT INTO topics (topic_id, topic) VALUES ('1', 'orders');
INSERT INTO share_group_state_records (group_id, topic_id, partition, log_offset, log_timestamp, record_type, value) VALUES
  ('g', '1', 0, 1, h(1), 1, stored(0, [batch(0, 9, 0, 1)])),
  ('g', '1', 0, 2, h(2), 1, stored(0, [batch(0, 3, 0, 2)])),
  ('g', '1', 0, 3, h(3), 1, stored(0, [batch(2, 3, 0, 3), batch(4, 9, 0, 1)])),
  ('g', '1', 0, 4, h(25), 0, stored(0, [batch(0, 1, 0, 2), batch(2, 3, 0, 3), batch(4, 9, 0, 1)])),
  ('g', '1', 0, 5, h(26), 1, stored(0, [batch(0, 3, 0, 4)])),
  ('g', '1', 1, 6, h(1), 1, stored(0, [batch(0, 3, 0, 1)])),
  ('h', 'x', 0, 7, NULL, 1, stored(0, [batch(5, 5, 0, 7)])), ('h', 'x', 0, 8, h(9), 0, stored(0, [batch(5, 5, 0, 7)])),
  ('i', 'x', 0, 9, h(9), 1, stored(0, [batch(5, 5, 0, 2)]));

SELECT day, group_id, topic, topic_id, partition, redeliveries, records, delivery_count FROM redeliveries;
VALUES (h(-6), 'g', 'orders', '1', 0, 6, 4, 3), (h(18), 'g', 'orders', '1', 0, 6, 4, 4), (NULL, 'h', NULL, 'x', 0, 6, 1, 7),
  (h(-6), 'i', NULL, 'x', 0, 1, 1, 2);
