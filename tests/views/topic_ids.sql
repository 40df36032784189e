-- Topics that were deleted and created again, and offsets of the older ones. h(n) is n hours after a full hour.
-- `twice`: by the log, in whatever order they were read. `in cluster`: the cluster reports an id under which no offset
-- has been committed yet. `since`: the log has shown another id since the cluster was asked last, if by a clock that is
-- slow. `only in cluster`: two that only the cluster reported, one after the other. `idle`: the same, without committed
-- offsets, so it is only known that e1 is newer than those of the log.
INSERT INTO topics (topic, topic_id, seen_log_timestamp, source) VALUES
  ('once', 'one', h(1), 'offset_commit'),
  ('twice', 'b2', h(2), 'offset_commit'), ('twice', 'a1', h(1), 'group_record'),
  ('in cluster', 'a9', NULL, 'cluster'), ('in cluster', 'b8', h(3), 'offset_commit'),
  ('since', 'c3', h(1), 'offset_commit'), ('since', 'c1', h(7), 'offset_commit'),
  ('only in cluster', 'd2', NULL, 'cluster'), ('only in cluster', 'd1', NULL, 'cluster'),
  ('idle', 'e1', NULL, 'cluster'), ('idle', 'e2', h(3), 'offset_commit');
INSERT INTO topic_offsets (audit_id, topic, topic_id, seen_at, status) VALUES
  (1, 'in cluster', 'b8', h(3.5), 'ok'), (2, 'in cluster', 'a9', h(4), 'ok'),
  (1, 'since', 'c3', h(5), 'ok'), (2, 'since', 'c3', h(7.1), 'ok'),
  (1, 'only in cluster', 'd2', h(1), 'ok'), (2, 'only in cluster', 'd1', h(2), 'ok'),
  (3, 'only in cluster', NULL, h(9), 'unknown_topic');
INSERT INTO committed_offsets (group_id, topic, topic_id, committed_offset, log_offset, commit_timestamp, is_orphan) VALUES
  ('g', 'once', 'one', 5, 0, NULL, false), ('g', 'twice', 'a1', 5, 7, h(1), true), ('h', 'twice', 'a1', 5, 0, NULL, false),
  ('i', 'twice', 'b2', 5, 0, NULL, false), ('before topic ids were logged', 'twice', NULL, 5, 0, NULL, false),
  ('g', 'in cluster', 'b8', 5, 0, NULL, false), ('g', 'since', 'c1', 5, 0, NULL, false), ('h', 'since', 'c3', 5, 0, NULL, false);

SELECT topic, topic_id, number, is_newest, valid_from, valid_to, source, seen_in_cluster_at, committed_offset_count
FROM topic_ids;
VALUES ('idle', 'e2', 1, false, h(3), NULL, 'offset_commit', NULL, 0),
  ('idle', 'e1', 2, true, NULL, NULL, 'cluster', NULL, 0),
  ('in cluster', 'b8', 1, false, h(3), NULL, 'offset_commit', h(3.5), 1),
  ('in cluster', 'a9', 2, true, NULL, NULL, 'cluster', h(4), 0),
  ('once', 'one', 1, true, h(1), NULL, 'offset_commit', NULL, 1),
  ('only in cluster', 'd2', 1, false, NULL, NULL, 'cluster', h(1), 0),
  ('only in cluster', 'd1', 2, true, NULL, NULL, 'cluster', h(2), 0),
  ('since', 'c3', 1, false, h(1), h(7), 'offset_commit', h(7.1), 1),
  ('since', 'c1', 2, true, h(7), NULL, 'offset_commit', NULL, 1),
  ('twice', 'a1', 1, false, h(1), h(2), 'group_record', NULL, 2),
  ('twice', 'b2', 2, true, h(2), NULL, 'offset_commit', NULL, 1);

-- `twice` b2: deleted after its last record; `in cluster` a9: deleted before the cluster named it last.
INSERT INTO group_events (topic, event, cause, log_timestamp) VALUES
  ('twice', 'offset_removed', 'topic_deleted', h(3)), ('once', 'offset_removed', 'expired', h(3)),
  ('in cluster', 'offset_removed', 'topic_deleted', h(3.5));

SELECT topic, topic_id FROM topic_ids WHERE is_gone;
VALUES ('idle', 'e2'), ('in cluster', 'b8'), ('only in cluster', 'd2'), ('only in cluster', 'd1'), ('since', 'c3'),
  ('twice', 'a1'), ('twice', 'b2');

SELECT group_id, topic, topic_id, newest_topic_id, newest_since FROM stale_offsets;
VALUES ('g', 'in cluster', 'b8', 'a9', NULL), ('h', 'since', 'c3', 'c1', h(7)),
  ('g', 'twice', 'a1', 'b2', h(2)), ('h', 'twice', 'a1', 'b2', h(2));

SELECT * FROM stale_offsets WHERE topic = 'twice' AND group_id = 'g';
VALUES (0, 'g', 'twice', 0, 5, h(1), 'a1', 'b2', h(2), 7, true);
