"""Which tasks read live partitions: no broker gets more fetchers than two, no offset is left out or read twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.replay.ranges import LogRange, leader, ranges_by_fetcher
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, FetchPiece
from tests.chosen import examples

GB = 1 << 30


def live_range(partition: int, start: int, end: int, *, leader: int | None = 1, size_bytes: int = GB) -> LogRange:
    """The new range of a live partition, of about this many bytes."""
    piece = FetchPiece("t", partition, "id", start, end, True, leader, size_bytes / max(end - start, 1))
    return LogRange(partition, 0, start, (piece,))


@examples(50)
@given(st.integers(0, 1000), st.integers(1, 500), st.integers(1, 16))
def test_the_parts_of_a_piece_cover_it(start: int, span: int, parts: int) -> None:
    (whole,) = live_range(3, start, start + span).pieces
    assert isinstance(whole, FetchPiece)
    pieces = whole.cut(parts)
    ends = [start, *(piece.end_offset for piece in pieces)]
    assert [piece.start_offset for piece in pieces] == ends[:-1]
    assert ends[-1] == start + span
    assert [piece.keep_first for piece in pieces] == [True] + [False] * (len(pieces) - 1)


def test_all_of_a_partition_is_read_by_one_task() -> None:
    new = [live_range(p, 10, 20) for p in range(5)]
    again = [replace(live_range(p, 0, 10), number=-1, is_reread=True) for p in range(5)]
    tasks = ranges_by_fetcher([*again, *new])
    assert len(tasks) == FETCHERS_PER_BROKER
    for of_task in tasks:
        assert Counter(r.offsets_partition for r in of_task) == {r.offsets_partition: 2 for r in of_task}


def test_no_broker_gets_more_than_its_fetchers() -> None:
    ranges = [live_range(p, 0, 1000, leader=p % 3, size_bytes=1 << 20) for p in range(50)]
    tasks = ranges_by_fetcher(ranges)
    assert all(len({leader(log_range) for log_range in of_task}) == 1 for of_task in tasks)
    assert Counter(leader(of_task[0]) for of_task in tasks) == dict.fromkeys(range(3), FETCHERS_PER_BROKER)
    assert sorted(r.offsets_partition for of_task in tasks for r in of_task) == list(range(50))


def test_a_broker_that_leads_one_partition_gets_one_fetcher() -> None:
    tasks = ranges_by_fetcher([live_range(0, 0, 10), live_range(1, 0, 10, leader=None)])
    assert [[r.offsets_partition for r in of_task] for of_task in tasks] == [[0], [1]]


def test_without_anything_new_there_is_no_task() -> None:
    assert ranges_by_fetcher([]) == []
