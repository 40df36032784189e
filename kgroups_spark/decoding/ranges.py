"""Contiguous pieces of the offsets partitions' logs, and the tasks that read them.

A segment is never cut inside a file. A partition is cut only if it alone would keep one task busy while the others
wait, into at most twice as many ranges as there are slots. A live partition is never cut: one task reads it
(partition_reading.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kgroups_spark.balance import by_weight
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, FetchPiece, Piece, SegmentPiece

Offset = TypeVar("Offset", int, None)


@dataclass(frozen=True)
class LogRange:
    """Consecutive segments or offsets of one offsets partition, its `number`-th range, without records below
    `start_offset` and from `end_offset` on (None: to the log's end).

    `known_corrupt`: file name and position of corrupt batches that quarantine has already. `is_reread`: an earlier
    audit read the range, and only the replay needs it again. `ends_log`: its last segment is the log's last, which may
    have a half-written tail. `only_if_missing`: it is read only if offsets are missing in the new span of the
    partition.
    """

    offsets_partition: int
    number: int
    start_offset: int
    pieces: tuple[Piece, ...]
    known_corrupt: frozenset[tuple[str, int]] = frozenset()
    is_reread: bool = False
    ends_log: bool = True
    only_if_missing: bool = False
    end_offset: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    def without_deleted(self, log_start: int) -> LogRange:
        """The range of a live log that begins at `log_start` now; it may be empty."""
        pieces = tuple(p.without_deleted(log_start) if isinstance(p, FetchPiece) else p for p in self.pieces)
        return replace(self, start_offset=max(self.start_offset, log_start), pieces=pieces)


# Smaller ranges are not cut: every range keeps the last value of each of its slots.
SMALLEST_CUT_BYTES = 64 << 20


def cut(whole: Sequence[LogRange], slots: int) -> list[LogRange]:
    """The same ranges, with large ones cut between segments, so that `slots` tasks can share the work."""
    share = max(sum(log_range.size_bytes for log_range in whole) // max(slots, 1), SMALLEST_CUT_BYTES)
    return [piece for log_range in whole for piece in _cut_one(log_range, share, 2 * slots)]


def _cut_one(log_range: LogRange, share: int, most: int) -> list[LogRange]:
    if log_range.size_bytes <= share * 5 // 4 or log_range.is_reread:
        return [log_range]
    target = max(share // 2, log_range.size_bytes // most)
    ranges: list[list[Piece]] = [[]]
    for piece in log_range.pieces:
        if ranges[-1] and sum(p.size_bytes for p in ranges[-1]) >= target:
            ranges.append([])
        ranges[-1].append(piece)
    return [
        replace(
            log_range,
            number=number,
            pieces=tuple(pieces),
            start_offset=log_range.start_offset if number == 0 else _first_offset(pieces, log_range.start_offset),
            end_offset=log_range.end_offset if number == len(ranges) - 1 else _first_offset(ranges[number + 1], None),
            ends_log=number == len(ranges) - 1,
        )
        for number, pieces in enumerate(ranges)
    ]


def _first_offset(pieces: Sequence[Piece], unknown: Offset) -> int | Offset:
    """The base offset of the first piece's segment; `unknown` for spans of a live log, which have their own ends."""
    first = pieces[0]
    return first.file.base_offset if isinstance(first, SegmentPiece) and first.file is not None else unknown


# The heaviest task may be heavier by this factor if its partitions are neighbours.
WORTH_NEIGHBOURS = 1.2


def ranges_by_task(ranges: Sequence[LogRange], tasks: int) -> list[list[LogRange]]:
    """The ranges of each of at most `tasks` tasks, with about the same number of bytes; no task is empty.

    A task gets neighbouring offsets partitions if that costs little: its parts are then about few partitions, and a
    query for one partition opens few files. Otherwise only the weight decides.
    """
    if not ranges:
        return []
    tasks = max(1, min(tasks, len(ranges)))
    in_order = sorted(ranges, key=lambda log_range: (log_range.offsets_partition, log_range.number))
    balanced = by_weight(in_order, lambda log_range: log_range.size_bytes, tasks)
    neighbours = _neighbours(in_order, tasks, int(max(map(_weight, balanced)) * WORTH_NEIGHBOURS))
    return balanced if neighbours is None else neighbours


def ranges_by_fetcher(ranges: Sequence[LogRange]) -> list[list[LogRange]]:
    """The ranges of live partitions of each task, with about the same number of bytes. A task reads from one broker, a
    broker has at most FETCHERS_PER_BROKER tasks, and a task has all ranges of its partitions.

    So no broker has more fetchers than that, whatever the number of slots.
    """
    by_partition: dict[int, list[LogRange]] = {}
    for log_range in ranges:
        by_partition.setdefault(log_range.offsets_partition, []).append(log_range)
    by_leader: dict[int | None, list[LogRange]] = {}
    for of_one in by_partition.values():
        whole = replace(of_one[0], pieces=tuple(piece for log_range in of_one for piece in log_range.pieces))
        by_leader.setdefault(leader(whole), []).append(whole)
    return [
        [log_range for whole in of_task for log_range in by_partition[whole.offsets_partition]]
        for of_one in by_leader.values()
        for of_task in ranges_by_task(of_one, FETCHERS_PER_BROKER)
    ]


def leader(log_range: LogRange) -> int | None:
    """The id of the partition's leader at planning; None: it had none, or the range is read from files."""
    piece = log_range.pieces[0]
    return piece.leader if isinstance(piece, FetchPiece) else None


def _neighbours(ranges: Sequence[LogRange], tasks: int, most: int) -> list[list[LogRange]] | None:
    """The ranges, in order, in tasks of nearly equal weight; None: a task would be heavier than `most`."""
    found: list[list[LogRange]] = []
    left, waiting = sum(map(_weight, ([r] for r in ranges))), list(ranges)
    for tasks_left in range(tasks, 0, -1):
        share, of_task = left / tasks_left, [waiting.pop(0)]
        # The task takes the next range if that brings it nearer to its share, and enough are left for the other tasks.
        while len(waiting) >= tasks_left and _weight(of_task) + _weight(waiting[:1]) / 2 <= share:
            of_task.append(waiting.pop(0))
        if tasks_left == 1:
            of_task += waiting
        left -= _weight(of_task)
        found.append(of_task)
    return found if all(_weight(of_task) <= most for of_task in found) else None


def _weight(ranges: Sequence[LogRange]) -> int:
    # One more than the bytes, so that empty ranges are spread, too.
    return sum(log_range.size_bytes + 1 for log_range in ranges)
