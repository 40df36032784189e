-- Partitions that wait for their owner. h(n) is n hours after a full hour. Group g: a has been asked at 2 for t-1, which b
-- wants since 1, and its timeout of an hour begins again at 2.5, when it is asked for more; what it said of itself at 3
-- changes nothing. Nobody holds t-3, which c wants again since 4. d has not been asked for t-4 yet, which c wants since before
-- its first record that is left. Group `kept`: before their first records that are left, b wanted t-1, and a was asked.
-- Group `mixed`: who has to release uses the classic protocol. Group `shared`: members share partitions.
-- Near misses: a's own partitions, also those that it is releasing; t-1 of another group; a classic group; a streams group.
INSERT INTO groups (group_id, group_type, state) VALUES ('g', 'consumer', 'Reconciling'), ('mixed', 'consumer', 'Reconciling'), ('kept', 'consumer', 'Reconciling'),
  ('shared', 'share', 'Stable'), ('other', 'consumer', 'Stable'), ('old', 'classic', 'Stable'), ('tasks', 'streams', 'Stable');
INSERT INTO group_members (group_id, member_id, rebalance_timeout_ms, uses_classic_protocol, assigned_partitions,
  pending_revocation_partitions, target_partitions)
  SELECT group_id, member_id, 3600000, member_id = 'k', list_transform(a, lambda p: {'topic': 't', 'topic_id': 'T', 'partition': p}),
    list_transform(r, lambda p: {'topic': 't', 'topic_id': 'T', 'partition': p}),
    list_transform(t, lambda p: {'topic': 't', 'topic_id': 'T', 'partition': p}) FROM (VALUES
    ('g', 'a', [0], [1, 2], [0, 2]), ('g', 'b', [], [], [1]), ('g', 'c', [], [], [3, 4]), ('g', 'd', [4, 5], [], [5]),
    ('mixed', 'k', [], [1], []), ('mixed', 'b', [], [], [1]), ('kept', 'a', [], [1], []), ('kept', 'b', [], [], [1]), ('shared', 'a', [0], [], [0, 1]), ('shared', 'b', [1], [], [1]),
    ('other', 'a', [1], [], [1]), ('old', 'a', [0], NULL, NULL), ('tasks', 'a', NULL, NULL, NULL)) AS given (group_id, member_id, a, r, t);
INSERT INTO group_member_versions (group_id, member_id, log_offset, log_timestamp, is_removed, client_id, member_epoch, member_state,
  assigned_partitions, pending_revocation_partitions, target_partitions)
  SELECT group_id, member_id, log_offset, h(hours), false, client_id, 4, state, list_transform(a, lambda p: {'topic_id': 'T', 'partition': p}),
    list_transform(r, lambda p: {'topic_id': 'T', 'partition': p}), list_transform(t, lambda p: {'topic_id': 'T', 'partition': p}) FROM (VALUES
    ('g', 'a', 1, 0, 'one', 'STABLE', [0, 1, 2], [], [0, 2]), ('g', 'a', 5, 2, 'one', 'UNREVOKED_PARTITIONS', [0, 2], [1], [0, 2]),
    ('g', 'a', 6, 2.5, 'one', 'UNREVOKED_PARTITIONS', [0], [1, 2], [0, 2]), ('g', 'a', 7, 3, 'two', 'UNREVOKED_PARTITIONS', [0], [1, 2], [0, 2]),
    ('g', 'b', 2, 0.5, 'b', 'STABLE', [], [], []), ('g', 'b', 3, 1, 'b', 'STABLE', [], [], [1]), ('g', 'b', 4, 1.5, 'c', 'STABLE', [], [], [1]),
    ('g', 'c', 8, 1, 'c', 'STABLE', [], [], [3, 4]), ('g', 'c', 9, 2, 'c', 'STABLE', [], [], [4]), ('g', 'c', 10, 4, 'c', 'STABLE', [], [], [3, 4]),
    ('g', 'd', 11, 1, 'd', 'STABLE', [4, 5], [], [5]),
    ('mixed', 'k', 18, 0, 'k', 'STABLE', [1], [], []), ('mixed', 'b', 19, 0, 'b', 'STABLE', [], [], []),
    ('mixed', 'k', 20, 1, 'k', 'UNREVOKED_PARTITIONS', [], [1], []), ('mixed', 'b', 21, 1, 'b', 'STABLE', [], [], [1]),
    ('kept', 'a', 22, 1, 'a', 'UNREVOKED_PARTITIONS', [], [1], []), ('kept', 'b', 23, 1, 'b', 'STABLE', [], [], [1]),
    ('shared', 'a', 30, NULL, 'a', 'STABLE', [0], [], [0, 1])) AS given (group_id, member_id, log_offset, hours, client_id, state, a, r, t);

SELECT group_id, topic, topic_id, partition, wanted_by, held_by, is_asked, since, revoking_since, rebalance_timeout_ms, out_by
FROM waiting_partitions;
VALUES ('g', 't', 'T', 1, 'b', 'a', true, h(1), h(2.5), 3600000, h(3.5)),
  ('g', 't', 'T', 3, 'c', NULL, false, h(4), NULL, NULL, NULL),
  ('g', 't', 'T', 4, 'c', 'd', false, NULL, NULL, 3600000, NULL),
  ('mixed', 't', 'T', 1, 'b', 'k', true, h(1), h(1), 3600000, NULL),
  ('kept', 't', 'T', 1, 'b', 'a', true, NULL, NULL, 3600000, NULL),
  ('shared', 't', 'T', 1, 'a', NULL, false, NULL, NULL, NULL, NULL);
