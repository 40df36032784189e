-- Why members left, in all_events. h(n) is n hours after a full hour; 0.01 hours are 36 s. Classic members have a session timeout of
-- 60 s, a rebalance timeout of 300 s. Each member is a case, all in group g (classic or consumer as the record says) but those of
-- `asked`, for which brokers reported a session timeout of 45 s. Each left at 5.
-- `quick`: seen 24 s before. `slow`: 36 s, which is more than half its timeout. `vanished`: 60.5 s. `longer`: 72 s.
-- `impatient`: 24 s, and its rebalance timeout is 30 s. `static`: a classic static member, 72 s; `static quick`: 24 s.
-- `away`: a static member of KIP-848 that was away. `revoking`: asked an hour before to release, and it had 300 s; `revoking late`: 24 s.
-- `new`: a KIP-848 member, 24 s, with an unknown session timeout. `asked`: the same, and brokers reported the timeout. `target`: the
-- same, but its newest record is a target, which the coordinator wrote. `timeless`: its records have no time. `set back`: seen 24 s
-- after it left, by a clock that was set back.
INSERT INTO groups (group_id, group_type, state) VALUES ('g', 'consumer', 'Stable'), ('asked', 'consumer', 'Stable');
INSERT INTO cluster_facts (audit_id, kind, name, value, source, group_id) VALUES
  (1, 'broker_config', 'group.classic.session.timeout.ms', '45000', 'set', NULL), (1, 'group_config', 'consumer.session.timeout.ms', '45000', 'set', 'asked');
INSERT INTO group_member_versions (group_id, member_id, log_offset, log_timestamp, is_removed, group_instance_id, member_epoch, member_state,
  uses_classic_protocol, session_timeout_ms, rebalance_timeout_ms, target_partitions)
  SELECT group_id, member_id, log_offset, h(hours), removed, instance, epoch, state, session IS NOT NULL, session, rebalance,
    CASE WHEN target > 0 THEN [{'topic_id': 'T', 'partition': target}] END FROM (VALUES
    ('g', 'quick', 10, 5 - 24 / 3600, false, NULL, NULL, NULL, 60000, 300000, 0), ('g', 'slow', 12, 5 - 36 / 3600, false, NULL, NULL, NULL, 60000, 300000, 0),
    ('g', 'vanished', 14, 5 - 60.5 / 3600, false, NULL, NULL, NULL, 60000, 300000, 0), ('g', 'longer', 16, 5 - 72 / 3600, false, NULL, NULL, NULL, 60000, 300000, 0),
    ('g', 'impatient', 18, 5 - 24 / 3600, false, NULL, NULL, NULL, 60000, 30000, 0), ('g', 'static', 20, 5 - 72 / 3600, false, 'i', NULL, NULL, 60000, 300000, 0),
    ('g', 'static quick', 22, 5 - 24 / 3600, false, 'j', NULL, NULL, 60000, 300000, 0), ('g', 'away', 24, 5 - 24 / 3600, false, 'k', -2, 'STABLE', NULL, 300000, 0),
    ('g', 'revoking', 26, 4, false, NULL, 4, 'UNREVOKED_PARTITIONS', NULL, 300000, 0), ('g', 'revoking late', 28, 5 - 24 / 3600, false, NULL, 4, 'UNREVOKED_PARTITIONS', NULL, 300000, 0),
    ('g', 'new', 30, 5 - 12 / 3600, false, NULL, 4, 'STABLE', NULL, 300000, 0), ('asked', 'asked', 32, 5 - 12 / 3600, false, NULL, 4, 'STABLE', NULL, 300000, 0),
    ('asked', 'target', 33, 4, false, NULL, 4, 'STABLE', NULL, 300000, 1), ('asked', 'target', 34, 5 - 12 / 3600, false, NULL, 4, 'STABLE', NULL, 300000, 2),
    ('g', 'set back', 35, 5 + 24 / 3600, false, NULL, NULL, NULL, 60000, 300000, 0), ('g', 'timeless', 36, NULL, false, NULL, NULL, NULL, 60000, 300000, 0)) AS given (group_id, member_id, log_offset, hours, removed, instance, epoch, state, session, rebalance, target);
INSERT INTO group_member_versions (group_id, member_id, log_offset, log_timestamp, is_removed)
  SELECT CASE WHEN member_id IN ('asked', 'target') THEN 'asked' ELSE 'g' END, member_id, 100 + row_number() OVER (), CASE WHEN member_id <> 'timeless' THEN h(5) END, true
  FROM (VALUES ('quick'), ('slow'), ('vanished'), ('longer'), ('impatient'), ('static'), ('static quick'), ('away'), ('revoking'), ('revoking late'), ('new'), ('asked'), ('target'), ('set back'), ('timeless')) AS given (member_id);
INSERT INTO group_events (group_id, member_id, log_offset, log_timestamp, event_timestamp, event_index, event)
  SELECT CASE WHEN member_id IN ('asked', 'target') THEN 'asked' ELSE 'g' END, member_id, 200, CASE WHEN member_id <> 'timeless' THEN h(5) END, h(5), row_number() OVER (),
    CASE WHEN member_id = 'other' THEN 'member_replaced' ELSE 'member_left' END
  FROM (VALUES ('quick'), ('slow'), ('vanished'), ('longer'), ('impatient'), ('static'), ('static quick'), ('away'), ('revoking'), ('revoking late'), ('new'), ('asked'), ('target'), ('set back'), ('timeless'), ('other')) AS given (member_id);

SELECT member_id, cause FROM all_events;
VALUES ('quick', 'left'), ('slow', NULL), ('vanished', 'probably_session_expired'), ('longer', NULL), ('impatient', NULL),
  ('static', 'probably_static_expired'), ('static quick', 'left'), ('away', 'static_expired'), ('revoking', 'probably_put_out_while_revoking'),
  ('revoking late', NULL), ('new', NULL), ('asked', 'probably_left'), ('target', NULL), ('set back', NULL), ('timeless', NULL), ('other', 'replaced');
