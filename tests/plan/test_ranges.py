"""Cutting logs into ranges, and dealing them to tasks."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.replay.ranges import SMALLEST_CUT_BYTES, LogRange, cut, leader, ranges_by_fetcher, ranges_by_task
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, FetchPiece, SegmentPiece
from tests.chosen import examples

MB = 1 << 20


def log(partition, *sizes, **more):
    """A log whose segments have these sizes in MB."""
    pieces = tuple(SegmentPiece(f"{partition}/{number}.log", 0, size * MB) for number, size in enumerate(sizes))
    return LogRange(partition, 0, 0, pieces, **more)


def sizes(ranges):
    return [[(piece.end - piece.position) // MB for piece in each.pieces] for each in ranges]


def test_a_log_that_would_keep_one_task_busy_is_cut_between_segments():
    assert sizes(cut([log(0, *[100] * 8)], slots=4)) == [[100]] * 8
    assert sizes(cut([log(0, *[50] * 8)], slots=2)) == [[50, 50]] * 4


def test_the_ranges_of_a_log_are_numbered_and_the_last_one_ends_it():
    ranges = cut([log(3, *[100] * 6)], slots=3)
    assert [(r.offsets_partition, r.number, r.ends_log) for r in ranges] == [
        (3, number, number == len(ranges) - 1) for number in range(len(ranges))
    ]
    assert len(ranges) > 1


@pytest.mark.parametrize("logs", [[log(0, 10, 10), log(1, 30)], [log(0, 4000)], [log(0, *[100] * 8, is_reread=True)]])
def test_small_logs_one_segment_and_ranges_that_are_read_again_are_not_cut(logs):
    assert cut(logs, slots=8) == logs


@pytest.mark.parametrize("seed", range(20))
def test_cut_keeps_every_piece_in_order_and_makes_at_most_twice_as_many_ranges_as_slots(seed):
    rng = random.Random(seed)
    logs = [log(p, *(rng.randint(1, 100) for _ in range(rng.randint(1, 40)))) for p in range(rng.randint(1, 6))]
    slots = rng.randint(1, 8)
    ranges = cut(logs, slots)
    for each in logs:
        mine = [r for r in ranges if r.offsets_partition == each.offsets_partition]
        assert tuple(piece for r in mine for piece in r.pieces) == each.pieces
        assert len(mine) <= 2 * slots
        assert all(r.size_bytes >= SMALLEST_CUT_BYTES // 2 for r in mine[:-1])


@pytest.mark.parametrize(
    ("ranges", "tasks", "partitions"),
    [
        ([log(0, 10), log(1, 70), log(2, 30), log(3, 40)], 2, [[0, 1], [2, 3]]),
        # Neighbours, where that costs little; but equal tasks count more.
        ([log(p, 100 + p % 3) for p in range(12)], 4, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]),
        ([log(0, 60), log(1, 100), log(2, 60)], 2, [[0, 2], [1]]),
        ([log(p, 5) for p in range(3)], 10, [[0], [1], [2]]),
        ([LogRange(p, 0, 0, ()) for p in range(4)], 2, [[0, 1], [2, 3]]),
        ([], 4, []),
    ],
)
def test_tasks_are_about_equal_and_none_is_empty(ranges, tasks, partitions):
    found = ranges_by_task(ranges, tasks)
    assert sorted([r.offsets_partition for r in of_task] for of_task in found) == partitions


@pytest.mark.parametrize("seed", range(20))
def test_tasks_are_never_much_heavier_than_the_heaviest_of_balanced_ones(seed):
    rng = random.Random(seed)
    ranges = [log(p, rng.choice([1, 5, 50, 400])) for p in range(rng.randint(1, 60))]
    tasks = rng.randint(1, 9)
    found = ranges_by_task(ranges, tasks)
    assert sorted(r.offsets_partition for of_task in found for r in of_task) == list(range(len(ranges)))
    assert len(found) == min(tasks, len(ranges))
    share = sum(r.size_bytes for r in ranges) / len(found)
    largest = max(r.size_bytes for r in ranges)
    # The largest first is at most 4/3 of the best (Graham), and the best no more than share and largest.
    assert max(sum(r.size_bytes for r in of_task) for of_task in found) <= 1.2 * 4 / 3 * (share + largest)


# Which tasks read live partitions: no broker gets more fetchers than two, no offset is left out or read twice.
GB = 1 << 30


def live_range(partition, start, end, *, leader=1, size_bytes=GB):
    """The new range of a live partition, of about this many bytes."""
    piece = FetchPiece("t", partition, "id", start, end, True, leader, size_bytes / max(end - start, 1))
    return LogRange(partition, 0, start, (piece,))


@examples(50)
@given(st.integers(0, 1000), st.integers(1, 500), st.integers(1, 16))
def test_the_parts_of_a_piece_cover_it(start, span, parts):
    (whole,) = live_range(3, start, start + span).pieces
    pieces = whole.cut(parts)
    ends = [start, *(piece.end_offset for piece in pieces)]
    assert [piece.start_offset for piece in pieces] == ends[:-1]
    assert ends[-1] == start + span
    assert [piece.keep_first for piece in pieces] == [True] + [False] * (len(pieces) - 1)


def test_all_of_a_partition_is_read_by_one_task():
    new = [live_range(p, 10, 20) for p in range(5)]
    again = [live_range(p, 0, 10)._replace(number=-1, is_reread=True) for p in range(5)]
    tasks = ranges_by_fetcher([*again, *new])
    assert len(tasks) == FETCHERS_PER_BROKER
    for of_task in tasks:
        assert Counter(r.offsets_partition for r in of_task) == {r.offsets_partition: 2 for r in of_task}


def test_no_broker_gets_more_than_its_fetchers():
    ranges = [live_range(p, 0, 1000, leader=p % 3, size_bytes=1 << 20) for p in range(50)]
    tasks = ranges_by_fetcher(ranges)
    assert all(len({leader(log_range) for log_range in of_task}) == 1 for of_task in tasks)
    assert Counter(leader(of_task[0]) for of_task in tasks) == dict.fromkeys(range(3), FETCHERS_PER_BROKER)
    assert sorted(r.offsets_partition for of_task in tasks for r in of_task) == list(range(50))


def test_a_broker_that_leads_one_partition_gets_one_fetcher():
    tasks = ranges_by_fetcher([live_range(0, 0, 10), live_range(1, 0, 10, leader=None)])
    assert [[r.offsets_partition for r in of_task] for of_task in tasks] == [[0], [1]]


def test_without_anything_new_there_is_no_task():
    assert ranges_by_fetcher([]) == []
