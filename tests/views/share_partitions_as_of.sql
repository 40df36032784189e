-- Lists of the group coordinator complete share partitions: of `g` by the list of that time. Those of `gone` and `classic`,
-- which is no share group any more, count up to there; versions of another partition do not end them.
INSERT INTO topics (topic_id, topic) VALUES ('A', 'the name of now');
INSERT INTO group_records (offsets_partition, group_id, record_type, log_offset, log_timestamp, value) VALUES
  (1, 'g', 15, 0, h(0), listing([0, 1], [])), (1, 'g', 15, 1, h(1), listing([1], [0])),
  (1, 'g', 15, 2, h(2), listing([], [], deletes := true)), (1, 'g', 15, 3, h(3), NULL),
  (1, 'gone', 15, 4, h(4), listing([], [0])), (1, 'classic', 15, 5, h(4), listing([], [0])), (1, 'h', 3, 6, h(6), NULL);
INSERT INTO group_versions (offsets_partition, group_id, group_type, log_offset, log_timestamp, is_removed) VALUES
  (1, 'gone', 'share', 6, h(6), true), (2, 'gone', 'share', 5, h(6), true), (1, 'classic', 'classic', 7, h(6), false);
INSERT INTO share_group_state_records (record_type, group_id, topic_id, partition, log_timestamp, value) VALUES
  (0, 'g', 'A', 0, h(0), '{"startOffset": 3, "deliveryCompleteCount": 0}');

SELECT hour, partition, init_state, start_offset, topic
  FROM range(4) AS moments(hour), share_partitions_as_of(h(hour)) WHERE group_id = 'g';
VALUES (0, 0, 'initializing', 3, 'topic A'), (0, 1, 'initializing', NULL, 'topic A'),
  (1, 0, 'initialized', 3, 'topic A'), (1, 1, 'initializing', NULL, 'topic A'),
  (2, 0, 'deleting', 3, 'topic A'), (3, 0, NULL, 3, 'the name of now');

SELECT hour, group_id, count(*) FROM range(4, 7) AS moments(hour), share_partitions_as_of(h(hour))
  WHERE group_id <> 'g' GROUP BY ALL;
VALUES (4, 'gone', 1), (5, 'gone', 1), (4, 'classic', 1), (5, 'classic', 1);
