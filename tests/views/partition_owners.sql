-- A streams group: active tasks own partitions, also those pending revocation; standby tasks do not. At offset 10 the
-- topology becomes another one. `h` has tasks before any topology, `i` a subtopology that its topology does not have. The
-- consumer group `k` has partitions as ever.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(40));
INSERT INTO group_records (group_id, log_offset, record_type, value) VALUES
  ('g', 1, 23, to_json({'epoch': 1, 'subtopologies': [subtopology(['in'], ['rep'])]})),
  ('g', 2, 17, to_json({'epoch': 1})),
  ('g', 10, 23, to_json({'epoch': 2, 'subtopologies': [subtopology(['other'], [])]})),
  ('h', 20, 23, to_json({'epoch': 1, 'subtopologies': [subtopology(['in'], [])]})),
  ('i', 1, 23, to_json({'epoch': 1, 'subtopologies': [subtopology(['in'], [])]})),
  ('k', 1, 23, NULL);
INSERT INTO group_member_versions
  (group_id, member_id, log_offset, log_timestamp, is_removed, client_id, assigned_tasks, pending_revocation_tasks, assigned_partitions) VALUES
  ('g', 'a', 3, h(3), false, 'c', [], [], NULL),
  ('g', 'a', 4, h(4), false, 'c', [{'role': 'active', 'subtopology_id': '0', 'partition': 0},
    {'role': 'standby', 'subtopology_id': '0', 'partition': 1}], [], NULL),
  ('g', 'a', 5, h(5), false, 'c', [], [{'role': 'active', 'subtopology_id': '0', 'partition': 0}], NULL),
  ('g', 'a', 6, h(6), false, 'c', [], [], NULL),
  ('g', 'b', 7, h(7), false, 'd', [{'role': 'active', 'subtopology_id': '0', 'partition': 0}], [], NULL),
  ('g', 'b', 11, h(11), false, 'd', [{'role': 'active', 'subtopology_id': '0', 'partition': 0}], [], NULL),
  ('g', 'b', 12, h(12), true, NULL, NULL, NULL, NULL),
  ('h', 'a', 13, h(13), false, 'c', [{'role': 'active', 'subtopology_id': '0', 'partition': 0}], [], NULL),
  ('i', 'a', 14, h(14), false, 'c', [{'role': 'active', 'subtopology_id': '7', 'partition': 0}], [], NULL),
  ('k', 'a', 15, h(15), false, 'c', NULL, NULL, [{'topic': 'in', 'topic_id': NULL, 'partition': 4, 'assignment_epoch': NULL}]);

SELECT group_id, member_id, client_id, topic, topic_id, partition, valid_from, valid_to FROM partition_owners;
VALUES ('g', 'a', 'c', 'in', NULL, 0, h(4), h(6)), ('g', 'a', 'c', 'rep', NULL, 0, h(4), h(6)),
  ('g', 'b', 'd', 'in', NULL, 0, h(7), h(11)), ('g', 'b', 'd', 'rep', NULL, 0, h(7), h(11)),
  ('g', 'b', 'd', 'other', NULL, 0, h(11), h(12)), ('k', 'a', 'c', 'in', NULL, 4, h(15), NULL);

-- A member that comes from another host begins a new span. An end without a time has the next time that is known, else the
-- last one at which it held. Of two members the last one to get a partition is its owner; that a has `both`, too, is not
-- forgotten: after b the owner is unknown.
INSERT INTO group_member_versions (group_id, member_id, client_host, log_offset, log_timestamp, is_removed, assigned_partitions) VALUES
  ('hosts', 'a', '/1', 1, h(1), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('hosts', 'a', '/2', 3, h(3), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('hosts', 'a', '/1', 5, h(5), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('ended', 'a', '/1', 1, h(1), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('ended', 'a', NULL, 3, NULL, true, NULL),
  ('again', 'a', '/1', 1, h(1), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('again', 'a', NULL, 3, NULL, true, NULL),
  ('again', 'a', '/1', 7, h(7), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('both', 'a', '/1', 1, h(1), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('both', 'b', '/1', 4, h(4), false, [{'topic': 't', 'topic_id': NULL, 'partition': 0, 'assignment_epoch': NULL}]),
  ('both', 'b', NULL, 8, h(8), true, NULL);
INSERT INTO offset_commits (group_id, topic, partition, log_offset, log_timestamp, committed_offset) VALUES
  ('both', 't', 0, 2, h(2), 1), ('both', 't', 0, 5, h(5), 1), ('both', 't', 0, 9, h(9), 1);

SELECT group_id, member_id, client_host, log_offset, released_log_offset, valid_to FROM partition_owners WHERE topic = 't';
VALUES ('hosts', 'a', '/1', 1, 3, h(3)), ('hosts', 'a', '/2', 3, 5, h(5)), ('hosts', 'a', '/1', 5, NULL, NULL),
  ('ended', 'a', '/1', 1, 3, h(1)), ('again', 'a', '/1', 1, 3, h(7)), ('again', 'a', '/1', 7, NULL, NULL),
  ('both', 'a', '/1', 1, NULL, NULL), ('both', 'b', '/1', 4, 8, h(8));

SELECT log_offset, owner_member_id FROM offset_history;
VALUES (2, 'a'), (5, 'b'), (9, NULL);
