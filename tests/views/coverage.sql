-- Partitions are kept apart: 0 is whole, 1 lacks log offset 42, of 2 nothing was read.
INSERT INTO audits (audit_id, status, partitions) VALUES
  (1, 'finished', [part(0, 10, 11, 1)]), (2, 'finished', [part(0, 11, 12, 1), part(1, 40, 44, 3), part(2, 7, 7, 0)]);
INSERT INTO offset_commits (offsets_partition, log_offset) VALUES (0, 10), (1, 40), (1, 43);
INSERT INTO group_records (offsets_partition, log_offset) VALUES (0, 11), (1, 41);

SELECT offsets_partition, first_log_offset, complete_from, read_to FROM coverage;
VALUES (0, 10, 10, 12), (1, 40, 43, 44), (2, NULL, 7, 7);
