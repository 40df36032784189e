"""Contiguous pieces of the offsets partitions' logs, and how they are dealt to tasks.

A segment is never cut inside a file. A partition is cut only where it alone would keep one task busy while the others
wait, into at most twice as many ranges as there are slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class SegmentPiece:
    """Bytes `position` to `end` of one segment file; both are batch borders."""

    path: str
    position: int
    end: int


@dataclass(frozen=True)
class LogRange:
    """Consecutive segments of one offsets partition, the `number`-th range of it; records below `start_offset` are
    left out.

    `known_corrupt`: file name and position of corrupt batches that quarantine has already. `is_reread`: the range was
    read before, only the replay needs it again. `ends_log`: its last segment is the log's last, whose tail may be half
    written.
    `begins_log`: nothing is before it, neither records nor a saved state, so whatever it ends began in it.
    """

    offsets_partition: int
    number: int
    start_offset: int
    pieces: tuple[SegmentPiece, ...]
    known_corrupt: frozenset[tuple[str, int]] = frozenset()
    is_reread: bool = False
    ends_log: bool = True
    begins_log: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(piece.end - piece.position for piece in self.pieces)


# Below this a range is not worth a cut: every range keeps the last value of each of its slots.
SMALLEST_CUT_BYTES = 64 << 20


def cut(whole: Sequence[LogRange], slots: int) -> list[LogRange]:
    """The same logs with the large ones cut between segments, so that `slots` tasks can share the work."""
    share = max(sum(log_range.size_bytes for log_range in whole) // max(slots, 1), SMALLEST_CUT_BYTES)
    return [piece for log_range in whole for piece in _cut_one(log_range, share, 2 * slots)]


def _cut_one(log_range: LogRange, share: int, most: int) -> list[LogRange]:
    if log_range.size_bytes <= share * 5 // 4 or log_range.is_reread:
        return [log_range]
    target = max(share // 2, log_range.size_bytes // most)
    ranges: list[list[SegmentPiece]] = [[]]
    for piece in log_range.pieces:
        if ranges[-1] and sum(p.end - p.position for p in ranges[-1]) >= target:
            ranges.append([])
        ranges[-1].append(piece)
    return [
        replace(
            log_range,
            number=number,
            pieces=tuple(pieces),
            ends_log=number == len(ranges) - 1,
            begins_log=number == 0 and log_range.begins_log,
        )
        for number, pieces in enumerate(ranges)
    ]


def deal(ranges: Sequence[LogRange], tasks: int) -> list[list[LogRange]]:
    """The ranges in at most `tasks` hands of about equal bytes, largest first; no hand is empty."""
    hands: list[list[LogRange]] = [[] for _ in range(max(1, min(tasks, len(ranges))))]
    loads = [0] * len(hands)
    for log_range in sorted(ranges, key=lambda r: (-r.size_bytes, r.offsets_partition, r.number)):
        lightest = loads.index(min(loads))
        hands[lightest].append(log_range)
        loads[lightest] += log_range.size_bytes + 1
    return [sorted(hand, key=lambda r: (r.offsets_partition, r.number)) for hand in hands if hand]
