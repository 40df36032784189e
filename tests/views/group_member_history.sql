-- A removal names the member that it removed; a version names itself. `b` was never seen before its removal.
INSERT INTO audits (audit_id, status, started_at) VALUES (1, 'finished', h(9));
INSERT INTO group_member_versions
  (group_id, member_id, log_offset, log_timestamp, is_removed, group_instance_id, client_id, client_host) VALUES
  ('g', 'a', 1, h(1), false, 'i', 'c', '/h'), ('g', 'a', 2, h(2), false, NULL, 'c2', '/h2'), ('g', 'a', 5, h(5), true, NULL, NULL, NULL),
  ('g', 'a', 6, h(6), false, 'j', NULL, NULL), ('g', 'b', 3, h(3), true, NULL, NULL, NULL),
  ('h', 'a', 4, h(4), true, NULL, NULL, NULL), ('h', 'c', 7, h(7), false, 'k', 'c3', '/h3'), ('h', 'c', 8, h(8), true, NULL, NULL, NULL);

SELECT group_id, member_id, log_offset, group_instance_id, client_id, client_host FROM group_member_history;
VALUES ('g', 'a', 1, 'i', 'c', '/h'), ('g', 'a', 2, NULL, 'c2', '/h2'), ('g', 'a', 5, NULL, 'c2', '/h2'), ('g', 'a', 6, 'j', NULL, NULL),
  ('g', 'b', 3, NULL, NULL, NULL), ('h', 'a', 4, NULL, NULL, NULL), ('h', 'c', 7, 'k', 'c3', '/h3'), ('h', 'c', 8, 'k', 'c3', '/h3');
