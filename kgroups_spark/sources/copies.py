"""Which of several copies of a partition is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.segment_file import SegmentFile, scan_segment
from kgroups_spark.sources.segments import PartitionCopy, settled


def last_batch(copy: PartitionCopy, scan: Callable[[SegmentFile], BatchColumns] = scan_segment) -> BatchColumns:
    """The header of the last sound batch of a log; empty if it has none."""
    for segment in reversed(copy.segments):
        batches = scan(segment)
        if len(batches):
            return batches[-1:]
    return BatchColumns.empty()


@dataclass(frozen=True)
class Choice:
    """One copy per partition, by partition; `notes` has a sentence per partition about the copies left out."""

    copies: list[PartitionCopy]
    notes: list[str]


def choose_copies(copies: Iterable[PartitionCopy]) -> Choice:
    """Among several copies of a partition the one with the highest last leader epoch, then the furthest end, then the
    first given.

    A follower can lag, and can have a tail that was never committed: the copy with the higher epoch is right (KIP-101).
    """
    by_partition: dict[tuple[str, int], list[PartitionCopy]] = defaultdict(list)
    for copy in copies:
        by_partition[copy.topic, copy.partition].append(copy)
    chosen: list[PartitionCopy] = []
    notes: list[str] = []
    for (topic, partition), candidates in sorted(by_partition.items()):
        if len(candidates) == 1:
            chosen += candidates
            continue
        looked_at = [settled(copy, _end) for copy in candidates]
        best = max(looked_at, key=itemgetter(1))
        chosen.append(best[0])
        others = ", ".join(_described(*each) for each in looked_at if each is not best)
        notes.append(f"{topic}-{partition} is read from {_described(*best)}; not from {others}")
    return Choice(chosen, notes)


def _end(copy: PartitionCopy) -> tuple[int, int]:
    """Last leader epoch and next offset; -1 and 0 of an empty log."""
    last = last_batch(copy)
    return (int(last.leader_epoch[0]), int(last.last_offset[0]) + 1) if len(last) else (-1, 0)


def _described(copy: PartitionCopy, end: tuple[int, int]) -> str:
    return f"{copy.folder} (leader epoch {end[0]}, ends before offset {end[1]})"
