-- Partitions are kept apart: 0 is whole, 1 lacks log offset 42, of 2 nothing was read. 3 to 7 lack log offset 4, if it is not
-- in quarantine: a corrupt batch, or a record that was decoded later, which is in its table, or was and has been reduced, is
-- missing, as is a record at which a load would fail. That one counts once: in 8 twice it would fill the hole at 2.
INSERT INTO audits (audit_id, status, partitions) VALUES
  (1, 'finished', [part(0, 10, 11, 1)]), (2, 'finished', [part(0, 11, 12, 1), part(1, 40, 44, 3), part(2, 7, 7, 0),
    part(3, 0, 10, 9), part(4, 0, 10, 9), part(5, 0, 10, 9), part(6, 0, 10, 9), part(7, 0, 10, 9), part(8, 0, 10, 9)]);
INSERT INTO offset_commits (offsets_partition, log_offset) VALUES (0, 10), (1, 40), (1, 43);
INSERT INTO group_records (offsets_partition, log_offset) VALUES (0, 11), (1, 41);
INSERT INTO offset_commits (offsets_partition, log_offset)
  SELECT p, o FROM range(3, 9) AS p(p), range(10) AS o(o) WHERE o <> CASE p WHEN 8 THEN 2 ELSE 4 END;
INSERT INTO quarantine (offsets_partition, log_offset, reason, record_count, resolved_by) VALUES
  (4, 4, 'unknown_record_type', 1, NULL), (5, 4, 'corrupt_batch', 1, NULL), (6, 4, 'load_would_fail', 0, NULL),
  (7, 4, 'unknown_record_type', 1, 3), (8, 7, 'load_would_fail', 1, NULL);

SELECT offsets_partition, first_log_offset, complete_from, read_to FROM coverage;
VALUES (0, 10, 10, 12), (1, 40, 43, 44), (2, NULL, 7, 7), (3, 0, 5, 10), (4, 0, 0, 10), (5, 0, 5, 10),
  (6, 0, 5, 10), (7, 0, 5, 10), (8, 0, 3, 10);
