-- unused_groups. Committed at 1, empty since 3; committed at 5 (`assigns`, no members ever); `gone by` has no offsets any
-- more, but commits in history; `pending` has an offset in a transaction; `share` stored state at 8. `busy` has members.
-- `timeless` has no time at all.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(99));
INSERT INTO groups (group_id, group_type, state, member_count, state_since, current_state_timestamp) VALUES
  ('empty', 'classic', 'Empty', 0, h(2), h(3)), ('assigns', 'classic', 'Empty', 0, NULL, NULL), ('gone by', 'consumer', 'Empty', 0, h(1), NULL),
  ('pending', 'classic', 'Empty', 0, h(1), NULL), ('share', 'share', 'Empty', 0, h(1), NULL), ('timeless', 'streams', 'Empty', 0, NULL, NULL),
  ('busy', 'classic', 'Stable', 2, h(1), NULL);
INSERT INTO committed_offsets (group_id, topic, partition, committed_offset, commit_timestamp) VALUES
  ('empty', 't', 0, 1, h(1)), ('empty', 't', 1, 1, h(0.5)), ('assigns', 't', 0, 1, h(5)), ('timeless', 't', 0, 1, NULL),
  ('busy', 'read', 0, 1, h(1)), ('busy', 'left', 0, 1, h(1)), ('busy', 'left', 1, 1, h(2)), ('busy', 'forever', 0, 1, h(1)), ('busy', 'unsure', 0, 1, h(1));
INSERT INTO pending_offsets (group_id, topic, partition, committed_offset, commit_timestamp) VALUES ('pending', 't', 0, 1, h(7));
INSERT INTO group_traffic (group_id, hour, commits, tombstones) VALUES ('gone by', h(6), 1, 0), ('gone by', h(9), 0, 4), ('empty', h(0), 2, 0);
INSERT INTO share_partitions (group_id, topic_id, partition, start_offset, log_timestamp) VALUES
  ('share', 'x', 0, 4, h(8)), ('share', 'x', 1, NULL, h(4));
INSERT INTO offset_expiry (group_id, topic, partition, reason, expires_at) VALUES
  ('empty', 't', 0, 'within_retention', h(170)), ('empty', 't', 1, 'within_retention', h(169)), ('assigns', 't', 0, 'within_retention', h(171)),
  ('timeless', 't', 0, 'within_retention', NULL), ('busy', 'read', 0, 'subscribed', NULL), ('busy', 'left', 0, 'within_retention', h(169)),
  ('busy', 'left', 1, 'retention_passed', h(170)), ('busy', 'forever', 0, 'clean_up_fails', NULL), ('busy', 'unsure', 0, 'pending_transaction', NULL);

SELECT group_id, group_type, state, idle_since, offset_count, expires_at FROM unused_groups;
VALUES ('empty', 'classic', 'Empty', h(3), 2, h(169)), ('assigns', 'classic', 'Empty', h(5), 1, h(171)),
  ('gone by', 'consumer', 'Empty', h(6), 0, NULL), ('pending', 'classic', 'Empty', h(7), 0, NULL),
  ('share', 'share', 'Empty', h(8), 1, NULL), ('timeless', 'streams', 'Empty', NULL, 1, NULL);

SELECT group_id, state, topic, offset_count, last_commit_at, kept_until FROM topics_no_longer_consumed;
VALUES ('busy', 'Stable', 'left', 2, h(2), h(170)), ('busy', 'Stable', 'forever', 1, h(1), NULL);

-- Expired while the group had two members, when it had none, and when it was deleted; deleted by somebody is not lost so.
INSERT INTO group_versions (group_id, log_offset, is_removed, state, member_count) VALUES
  ('busy', 1, false, 'Empty', 0), ('busy', 5, false, 'Stable', 2), ('busy', 9, false, 'Empty', 0), ('busy', 12, true, NULL, NULL),
  ('other', 1, false, 'Stable', 1);
INSERT INTO group_events (group_id, topic, partition, log_offset, event, cause, offset_before, event_timestamp, log_timestamp) VALUES
  ('busy', 't', 0, 3, 'offset_removed', 'expired', 11, h(3), h(3)), ('busy', 't', 1, 7, 'offset_removed', 'expired', 12, h(7), h(7)),
  ('busy', 't', 2, 8, 'offset_removed', 'offset_deleted', 13, h(8), h(8)), ('busy', 't', 3, 10, 'offset_removed', 'expired', 14, h(10), h(10)),
  ('busy', 't', 4, 13, 'offset_removed', 'expired', 15, h(13), h(13)), ('busy', 't', 5, 5, 'offset_removed', 'expired', 16, h(5), h(5));

SELECT group_id, topic, partition, committed_offset, removed_at, cause, state, member_count FROM lost_while_active;
VALUES ('busy', 't', 1, 12, h(7), 'expired', 'Stable', 2);
