-- Partitions that changed their owner. h(n) is n hours after a full hour. Group g: a has t-0 and t-1 and commits; t-0 goes
-- to b at 2 (a KIP-848 member gives it up first: at 1.9), and back to a under the same id later; t-1 stays.
-- Group `static`: a static member returns with another id, and had committed nothing. Group `removed`: the offset was
-- removed before the handover. Group `later`: a commit was open in a transaction at the
-- release, and took effect before the next owner came.
-- Near misses: `again`: one member gives up a partition and gets it back; `both`: two members have it at once;
-- `shared`: a share group; another group's commit of the same partition.
INSERT INTO group_versions (group_id, group_type, log_offset) VALUES ('shared', 'share', 0), ('g', 'consumer', 0);
INSERT INTO group_member_versions (group_id, member_id, client_id, log_offset, log_timestamp, is_removed, assigned_partitions) VALUES
  ('g', 'a', 'app-1', 1, h(0), false, [{'topic': 't', 'partition': 0}, {'topic': 't', 'partition': 1}]),
  ('g', 'a', 'app-1', 10, h(1.9), false, [{'topic': 't', 'partition': 1}]),
  ('g', 'b', 'app-2', 12, h(2), false, [{'topic': 't', 'partition': 0}]),
  ('g', 'b', 'app-2', 14, h(3), true, NULL),
  ('g', 'a', 'app-1', 15, h(4), false, [{'topic': 't', 'partition': 0}, {'topic': 't', 'partition': 1}]),
  ('static', 'old', NULL, 20, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('static', 'old', NULL, 21, h(1), true, NULL),
  ('static', 'new', NULL, 21, h(1), false, [{'topic': 't', 'partition': 0}]),
  ('removed', 'a', NULL, 30, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('removed', 'a', NULL, 32, h(1), true, NULL),
  ('removed', 'b', NULL, 34, h(2), false, [{'topic': 't', 'partition': 0}]),
  ('later', 'a', NULL, 40, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('later', 'a', NULL, 42, h(1), true, NULL),
  ('later', 'b', NULL, 44, h(2), false, [{'topic': 't', 'partition': 0}]),
  ('again', 'a', NULL, 50, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('again', 'a', NULL, 51, h(1), false, []),
  ('again', 'a', NULL, 52, h(2), false, [{'topic': 't', 'partition': 0}]),
  ('both', 'a', NULL, 60, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('both', 'b', NULL, 61, h(1), false, [{'topic': 't', 'partition': 0}]),
  ('both', 'a', NULL, 62, h(2), true, NULL),
  ('shared', 'a', NULL, 70, h(0), false, [{'topic': 't', 'partition': 0}]),
  ('shared', 'a', NULL, 71, h(1), true, NULL),
  ('shared', 'b', NULL, 72, h(2), false, [{'topic': 't', 'partition': 0}]);
INSERT INTO offset_commits (group_id, topic, partition, log_offset, log_timestamp, committed_offset, is_transactional) VALUES
  ('g', 't', 0, 5, h(1), 100, false), ('g', 't', 0, 7, h(1.5), 110, false), ('g', 't', 1, 8, h(1.8), 7, false),
  ('other', 't', 0, 9, h(1.85), 999, false), ('g', 't', 0, 13, h(2.5), 130, false),
  ('removed', 't', 0, 31, h(0.5), 100, false), ('removed', 't', 0, 33, h(1.5), NULL, false),
  ('later', 't', 0, 41, h(0.5), 100, false), ('later', 't', 0, 43, h(1.5), 120, false);

SELECT group_id, topic, partition, from_member_id, from_client_id, to_member_id, to_client_id, released_timestamp,
  handover_timestamp, committed_offset, last_commit_timestamp, since_last_commit_ms, log_offset FROM handovers;
VALUES ('g', 't', 0, 'a', 'app-1', 'b', 'app-2', h(1.9), h(2), 110, h(1.5), 1440000, 12),
  ('g', 't', 0, 'b', 'app-2', 'a', 'app-1', h(3), h(4), 130, h(2.5), 1800000, 15),
  ('static', 't', 0, 'old', NULL, 'new', NULL, h(1), h(1), NULL, NULL, NULL, 21),
  ('removed', 't', 0, 'a', NULL, 'b', NULL, h(1), h(2), NULL, NULL, NULL, 34),
  ('later', 't', 0, 'a', NULL, 'b', NULL, h(1), h(2), 120, h(1.5), 0, 44);
