"""Counts of ranges: commits by group and hour of log time, names of topic ids, partitions that fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kgroups_spark.replay.counts import (
    HOUR_MS,
    MOST_PARTITIONS,
    DecodedChunk,
    GroupTraffic,
    TopicNames,
    fitting_partition_counts,
)
from kgroups_spark.words import to_epoch_ms

HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def rows(traffic):
    columns = traffic.rows(1, [0]).to_pydict().values()
    return {
        (group_id, hour and to_epoch_ms(hour)): counts for _, _, group_id, hour, *counts in zip(*columns, strict=True)
    }


def add(traffic, *commits):
    """Commits: number of the group, time, tombstone, transactional, bytes."""
    table = np.array(commits, np.int64).reshape(-1, 5)
    (group, timestamp, _, _, size), (is_tombstone, is_transactional) = table.T, table.T[2:4].astype(np.bool_)
    none = np.zeros(len(commits), np.int64)
    records = SimpleNamespace(
        key_length=none, value_length=size, timestamp=timestamp, is_transactional=is_transactional
    )
    decoded = SimpleNamespace(rows=np.arange(len(commits)), code=group, is_tombstone=is_tombstone)
    keys = SimpleNamespace(groups=["a", "b"], group=np.arange(2))
    traffic.add_chunk(DecodedChunk(records, none, decoded, keys, []))


def test_commits_tombstones_and_transactional_commits_are_counted_apart():
    traffic = GroupTraffic()
    add(
        traffic,
        (0, HOUR, False, False, 10),
        (0, HOUR + HOUR_MS - 1, False, True, 20),
        (0, HOUR, True, False, 3),
        (0, HOUR, True, True, 4),  # a tombstone in a transaction is a tombstone
        (1, HOUR, False, False, 50),
    )
    assert rows(traffic) == {("a", HOUR): [2, 2, 1, 0, 37], ("b", HOUR): [1, 0, 0, 0, 50]}


def test_records_without_a_time_have_no_hour():
    traffic = GroupTraffic()
    add(traffic, (0, -1, False, False, 1), (0, 0, False, False, 2))
    traffic.add_record((0, "a"), -1, 5)
    assert rows(traffic) == {("a", None): [1, 0, 0, 1, 6], ("a", 0): [1, 0, 0, 0, 2]}


def test_chunks_and_records_of_other_types_add_up():
    traffic = GroupTraffic()
    for _ in range(2):
        add(traffic, (1, HOUR + 7, False, False, 8))
        traffic.add_record((0, "b"), HOUR + 9, 100)
    assert rows(traffic) == {("b", HOUR): [2, 0, 0, 2, 216]}


def test_a_chunk_without_commits_counts_nothing():
    traffic = GroupTraffic()
    add(traffic)
    assert rows(traffic) == {}


def test_a_sighting_of_a_topic_with_a_time_is_earlier_than_one_without():
    for times in ((-1, 40), (40, -1)):
        names = TopicNames()
        for time in times:
            names.add("A", "orders", time, "offset_commit")
        names.merge([("B", "clicks", None, "group_record")])
        assert names.rows() == [("A", "orders", 40, "offset_commit"), ("B", "clicks", None, "group_record")]


def test_numbers_that_a_partition_would_not_be_in_do_not_fit():
    assert fitting_partition_counts(["a"], 47) == [50]  # its hash is 97: 97 % 50 is 47
    assert fitting_partition_counts(["a"], 97) == list(range(98, MOST_PARTITIONS + 1))
    # A hash without an absolute value.
    assert fitting_partition_counts(["polygenelubricants"], 0) == list(range(1, MOST_PARTITIONS + 1))
