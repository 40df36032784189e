-- A record an hour in each of three partitions. A correction counts from the log offset up to which the log had been read:
-- of 0 the group was gone there, and the record at 5 is a later one. Of 2 a state before 5 was kept.
INSERT INTO offset_commits (offsets_partition, group_id, topic, partition, record_type, value_version, metadata, log_offset, committed_offset, log_timestamp)
  SELECT p, 'g', 't', 0, 1, 3, '', n, n, h(n) FROM range(3) AS p(p), range(10) AS n(n);
INSERT INTO checkpoints (offsets_partition, reason, entry_type, group_id, log_offset, payload) VALUES
  (0, 'reread', 'group', 'g', 5, '{"group": null, "offsets": []}');

SELECT hour, committed_offset FROM range(7) AS moments(hour), committed_offsets_as_of(h(hour)) WHERE offsets_partition = 0;
VALUES (0, 0), (1, 1), (2, 2), (3, 3), (5, 5), (6, 6);

SELECT log_offset, previous_committed_offset, valid_to FROM offset_history
  WHERE offsets_partition = 0 AND log_offset IN (3, 4, 5, 6, 9);
VALUES (3, 2, h(4)), (4, 3, h(5)), (5, NULL, h(6)), (6, 5, h(7)), (9, 8, NULL);

INSERT INTO checkpoints (offsets_partition, reason, entry_type, log_offset, payload) VALUES (2, 'keep', 'topics', 5, '{"topics": []}');

SELECT * FROM committed_offsets_as_of(h(-1));
ERROR partition 2 of __consumer_offsets below log offset 5 .* ask for a later time;

SELECT * FROM committed_offsets_as_of(h(3));
ERROR partition 2 of __consumer_offsets below log offset 5 .* ask for a later time;

SELECT committed_offset FROM committed_offsets_as_of(h(3)) WHERE offsets_partition = 1;
VALUES (3);

-- Its end is the border: the state that was saved there has the records below.
SELECT offsets_partition, committed_offset FROM committed_offsets_as_of(h(4));
VALUES (1, 4), (2, 4);

SELECT offsets_partition, committed_offset FROM committed_offsets_as_of(h(99));
VALUES (0, 9), (1, 9), (2, 9);

SELECT known_as_of(h(-1)), known_as_of(h(3)), known_as_of(h(4));
VALUES ('reduced', 'reduced', 'complete');
