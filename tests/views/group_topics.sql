-- The topics of groups, and where they are from: each source of a topic is reported once.
INSERT INTO groups (group_id, group_type, state, member_count, resolved_regex_topics, topology) VALUES
  ('names', 'consumer', 'Stable', 1, NULL, NULL), ('no topology yet', 'consumer', 'Stable', 1, NULL, NULL),
  ('regex', 'consumer', 'Stable', 1, MAP {'a.*': ['aa', 'ab'], 'ab.*': ['ab'], 'none': []}, NULL),
  ('streams', 'consumer', 'Stable', 1, NULL, json_object('epoch', 0, 'subtopologies', [
    subtopology(['in', 'it''s'], []), subtopology([], ['mid'])]));
INSERT INTO group_members (offsets_partition, group_id, member_id, subscribed_topics) VALUES
  (0, 'names', '1', ['t', 'u']), (0, 'names', '2', ['t']), (0, 'names', '3', []), (0, 'names', '4', NULL),
  (7, 'names', '1', ['t']), (0, 'streams', '1', NULL);
INSERT INTO committed_offsets (group_id, topic, partition, is_orphan) VALUES
  ('names', 't', 0, false), ('names', 't', 1, false), ('names', 't', 2, false), ('gone', 'old', 0, true);

SELECT * FROM group_topics;
VALUES (0, 'gone', 'old', 'committed'), (0, 'names', 't', 'committed'), (0, 'names', 't', 'subscribed'),
  (0, 'names', 'u', 'subscribed'), (0, 'regex', 'aa', 'regex'), (0, 'regex', 'ab', 'regex'),
  (0, 'streams', 'in', 'topology'), (0, 'streams', 'it''s', 'topology'), (0, 'streams', 'mid', 'topology'),
  (7, 'names', 't', 'subscribed');
