"""Counts by group and hour of log time."""

from __future__ import annotations

import numpy as np

from kgroups_spark.replay.counts import HOUR_MS, GroupTraffic
from kgroups_spark.words import to_epoch_ms

HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def rows(traffic: GroupTraffic) -> dict[tuple[str, int | None], list[int]]:
    columns = traffic.batch(1, [0]).to_pydict().values()
    return {
        (group_id, hour and to_epoch_ms(hour)): counts for _, _, group_id, hour, *counts in zip(*columns, strict=True)
    }


def add(traffic: GroupTraffic, *commits: tuple[int, int, bool, bool, int]) -> None:
    """Commits: number of the group, time, tombstone, transactional, bytes."""
    group, timestamp, tombstone, transactional, size = (list(c) for c in zip(*commits, strict=True))
    traffic.add_commits(
        ["a", "b"],
        np.array(group, np.int64),
        np.array(timestamp, np.int64),
        np.array(tombstone, np.bool_),
        np.array(transactional, np.bool_),
        np.array(size, np.int64),
    )


def test_commits_tombstones_and_transactional_commits_are_counted_apart() -> None:
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


def test_records_without_a_time_have_no_hour() -> None:
    traffic = GroupTraffic()
    add(traffic, (0, -1, False, False, 1), (0, 0, False, False, 2))
    traffic.add_record((0, "a"), -1, 5)
    assert rows(traffic) == {("a", None): [1, 0, 0, 1, 6], ("a", 0): [1, 0, 0, 0, 2]}


def test_chunks_and_records_of_other_types_add_up() -> None:
    traffic = GroupTraffic()
    for _ in range(2):
        add(traffic, (1, HOUR + 7, False, False, 8))
        traffic.add_record((0, "b"), HOUR + 9, 100)
    assert rows(traffic) == {("b", HOUR): [2, 0, 0, 2, 216]}


def test_a_chunk_without_commits_counts_nothing() -> None:
    traffic, none = GroupTraffic(), np.zeros(0, np.int64)
    traffic.add_commits([], none, none, none.astype(np.bool_), none.astype(np.bool_), none)
    assert rows(traffic) == {}
