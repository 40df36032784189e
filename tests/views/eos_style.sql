-- Exactly-once styles. Producers 1 to 30 have the transactional ids below; 40 and 41 are not in __transaction_state.
-- `tasks`: each id ends in its partition's number, also of two topics and two subtopologies. `renamed`: the same, under
-- new ids. `thread`: one id, several partitions. `moved`: each id has one partition number, and t-0 had two ids.
-- `streams`: one thread for each partition, and the names have the form of threads, whose numbers are partitions' by chance.
-- Near misses: `one`: a single partition; `names`: an id for each partition, in names that do not say so; `unknown`: no names,
-- and a second producer id for a partition may be a restart; `plain`: no transactions; `named`: names of which one is known.
INSERT INTO transaction_state_records (transactional_id, value, log_offset)
  SELECT name, '{"producerId":' || id || '}', id FROM (VALUES ('app-0_0', 1), ('app-0_1', 2), ('app-1_0', 3), ('app-1_1', 4),
    ('v2-0', 5), ('v2-1', 6), ('thread', 10), ('left', 11), ('right', 12), ('late', 13),
    ('app-01234567-89ab-cdef-0123-456789abcdef-1', 20), ('app-01234567-89ab-cdef-0123-456789abcdef-2', 21), ('one-0', 22),
    ('red', 23), ('blue', 24)) AS given (name, id);
INSERT INTO offset_commits (group_id, producer_id, topic, partition, is_transactional, committed_offset, log_offset)
  SELECT *, producer_id IS NOT NULL, 5, row_number() OVER () FROM (VALUES
    ('tasks', 1, 't', 0), ('tasks', 1, 'u', 0), ('tasks', 2, 't', 1), ('tasks', 3, 'x', 0), ('tasks', 4, 'x', 1),
    ('renamed', 1, 't', 0), ('renamed', 2, 't', 1), ('renamed', 5, 't', 0), ('renamed', 6, 't', 1),
    ('thread', 10, 't', 0), ('thread', 10, 't', 1), ('moved', 11, 't', 0), ('moved', 12, 't', 1), ('moved', 13, 't', 0),
    ('streams', 20, 't', 1), ('streams', 21, 't', 2), ('one', 22, 't', 0), ('names', 23, 't', 0), ('names', 24, 't', 1),
    ('unknown', 40, 't', 0), ('unknown', 41, 't', 0), ('unknown', 42, 't', 1), ('named', 1, 't', 0), ('named', 40, 't', 1),
    ('plain', NULL, 't', 0)) AS given (group_id, producer_id, topic, partition);

SELECT group_id, style, ids, partitions, most_partitions_of_an_id FROM eos_style;
VALUES ('tasks', 'an id per partition', 4, 5, 1), ('renamed', 'an id per partition', 4, 2, 1),
  ('thread', 'an id per thread', 1, 2, 2), ('moved', 'an id per thread', 3, 2, 1), ('streams', 'an id per thread', 2, 2, 1),
  ('one', 'unknown', 1, 1, 1), ('names', 'unknown', 2, 2, 1), ('unknown', 'unknown', 3, 2, 1),
  ('named', 'unknown', 2, 2, 1);
