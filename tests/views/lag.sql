-- Committed offsets beside the ends of their topics. h(24) is when the newest audit asked for these.
-- After the number of partitions was raised a group can be in two, as `behind` is; both rows are there. A broker stores
-- any number that a client commits.
INSERT INTO committed_offsets (offsets_partition, group_id, topic, partition, committed_offset, commit_timestamp) VALUES
  (0, 'behind', 't', 0, 40, NULL), (0, 'behind', 't', 1, 9, NULL), (7, 'behind', 't', 0, 41, NULL),
  (0, 'at the end', 't', 0, 100, NULL), (0, 'at the start', 't', 1, 10, NULL),
  (0, 'beyond the end', 't', 0, 130, h(24)), (0, 'one beyond the end', 't', 0, 101, h(0)),
  (0, 'beyond an empty log''s end', 'it''s', 0, 7, h(0)), (0, 'at an empty log''s end', 'it''s', 0, 6, NULL),
  (0, 'beyond the end since', 't', 0, 130, h(25)), (0, 'beyond the end at an unknown time', 't', 0, 130, NULL),
  (0, 'below the start since', 't', 1, 9, h(25)), (0, 'nothing committed', 't', 0, -1, NULL),
  (0, 'of a topic that is gone', 'gone', 0, 5, NULL), (0, 'of a partition that is gone', 't', 2, 5, NULL),
  (0, 'new since', 'new', 0, 5, NULL), (0, 'quoted', 'it''s', 0, 5, NULL),
  (0, 'lowest', 't', 0, -9223372036854775808, NULL), (0, 'highest', 't', 1, 9223372036854775807, NULL);

SELECT log_start_offset, log_end_offset, lag, records_lost, will_reset, seen_at, count(*) FROM lag GROUP BY ALL;
VALUES (NULL, NULL, NULL, NULL, NULL, NULL, 19);

-- Share partitions: an unknown start offset or count has no lag, nor has one that no BIGINT holds, nor a topic that was
-- created again since, or whose end no audit saw.
INSERT INTO share_partitions (group_id, topic_id, topic, partition, start_offset, delivery_complete_count) VALUES
  ('s0', 'A', 'jobs', 0, 40, 3), ('s1', 'A', 'jobs', 0, NULL, 3), ('s2', 'A', 'jobs', 0, 40, NULL), ('s3', 'A', 'jobs', 1, 13, 0),
  ('s4', 'A', 'jobs', 0, -9223372036854775808, 0), ('s5', 'A', 'jobs', 0, 100 - 9223372036854775807, 0),
  ('s6', 'created before', 'jobs', 0, 40, 3), ('s7', 'A', 'jobs', 2, 5, 0), ('s8', 'A', 'jobs', 9, 5, 0);

SELECT lag, log_end_offset, count(*) FROM share_lag GROUP BY ALL;
VALUES (NULL, NULL, 9);

-- The audit before saw other ends; the newest one has rows for all but the topic `new`.
INSERT INTO topic_offsets (audit_id, topic, partition, topic_id, log_start_offset, log_end_offset, status, seen_at) VALUES
  (3, 't', 0, NULL, 0, 50, 'ok', h(0)), (3, 'new', 0, NULL, 0, 50, 'ok', h(0)), (5, 't', 0, NULL, 0, 100, 'ok', h(24)),
  (5, 't', 1, NULL, 10, 12, 'ok', h(24)), (5, 't', 2, NULL, NULL, NULL, 'unknown_topic', h(24)),
  (5, 'gone', 0, NULL, NULL, NULL, 'unknown_topic', h(24)), (5, 'it''s', 0, NULL, 6, 6, 'ok', h(24)),
  (5, 'nobody''s', 0, NULL, 0, 1, 'ok', h(24)), (5, 'jobs', 0, 'A', 0, 100, 'ok', h(24)),
  (5, 'jobs', 1, NULL, 0, 12, 'ok', h(24)), (5, 'jobs', 2, 'A', NULL, NULL, 'unavailable', h(24));

SELECT group_id, topic, partition, log_start_offset, log_end_offset, lag, records_lost, will_reset, seen_at FROM lag;
VALUES ('behind', 't', 0, 0, 100, 60, 0, false, h(24)), ('behind', 't', 0, 0, 100, 59, 0, false, h(24)),
  ('behind', 't', 1, 10, 12, 3, 1, true, h(24)), ('at the end', 't', 0, 0, 100, 0, 0, false, h(24)),
  ('at the start', 't', 1, 10, 12, 2, 0, false, h(24)), ('beyond the end', 't', 0, 0, 100, -30, 0, true, h(24)),
  ('one beyond the end', 't', 0, 0, 100, -1, 0, true, h(24)), ('beyond an empty log''s end', 'it''s', 0, 6, 6, -1, 0, true, h(24)),
  ('at an empty log''s end', 'it''s', 0, 6, 6, 0, 0, false, h(24)), ('beyond the end since', 't', 0, 0, 100, -30, 0, NULL, h(24)),
  ('beyond the end at an unknown time', 't', 0, 0, 100, -30, 0, NULL, h(24)), ('below the start since', 't', 1, 10, 12, 3, 1, true, h(24)),
  ('nothing committed', 't', 0, 0, 100, NULL, NULL, true, h(24)), ('of a topic that is gone', 'gone', 0, NULL, NULL, NULL, NULL, NULL, h(24)),
  ('of a partition that is gone', 't', 2, NULL, NULL, NULL, NULL, NULL, h(24)), ('new since', 'new', 0, NULL, NULL, NULL, NULL, NULL, NULL),
  ('quoted', 'it''s', 0, 6, 6, 1, 1, true, h(24)), ('lowest', 't', 0, 0, 100, NULL, NULL, true, h(24)),
  ('highest', 't', 1, 10, 12, 12 - 9223372036854775807, 0, NULL, h(24));

SELECT group_id, lag, log_end_offset, records_lost FROM share_lag;
VALUES ('s0', 57, 100, 0), ('s1', NULL, 100, NULL), ('s2', NULL, 100, 0), ('s3', -1, 12, 0), ('s4', NULL, 100, NULL),
  ('s5', 9223372036854775807, 100, 9223372036854775707), ('s6', NULL, NULL, NULL), ('s7', NULL, NULL, NULL), ('s8', NULL, NULL, NULL);
