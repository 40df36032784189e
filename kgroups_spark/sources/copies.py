"""Which of several copies of a partition is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from kgroups_spark.errors import NotReadable
from kgroups_spark.number_ranges import named_partitions
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.segment_log import NO_SEGMENTS, SegmentLog
from kgroups_spark.sources.segments import PartitionCopy, settled
from kgroups_spark.storage.files import folder_of


@dataclass(frozen=True)
class Choice:
    """One copy per partition, by partition; `notes` has sentences about the copies left out: one for all equal ones."""

    copies: list[PartitionCopy]
    notes: list[str]


@dataclass(frozen=True)
class _Looked:
    """A copy, the newest confirmed leader epoch at its end (-1: none), and its last batch (empty: it has none)."""

    log: SegmentLog
    epoch: int
    end: int
    last: BatchColumns

    @property
    def is_readable(self) -> bool:
        return self.log.copy.unreadable is None and bool(self.log.copy.segments)

    def equals(self, other: _Looked) -> bool:
        mine, others = (each.last.crc.tolist() for each in (self, other))
        return self.is_readable and other.is_readable and self.end == other.end and mine == others

    def contains(self, other: _Looked) -> bool:
        """Whether the copy has the last batch of the other one (same offset, same CRC), and so all before it."""
        if self.end < other.end or not len(other.last) or self.equals(other):
            return self.end >= other.end
        offset, crc = int(other.last.base_offset[0]), int(other.last.crc[0])
        with suppress(NotReadable):
            there = self.log.asked(lambda log: log.headers_at(offset))
            return bool(((there.base_offset == offset) & (there.crc == crc)).any())
        return False

    def __str__(self) -> str:
        copy = self.log.copy
        if not self.is_readable:
            return f"{copy.folder} ({copy.unreadable or NO_SEGMENTS})"
        return f"{copy.folder} (leader epoch {self.epoch}, ends before offset {self.end})"


def choose_copies(copies: Iterable[PartitionCopy]) -> Choice:
    """Among several copies of a partition the one that contains the others. If none does, the one with the newest
    confirmed leader epoch at its end, then the furthest end, then the first given.

    A follower can lag, and can have a tail that was never committed: the copy with the higher epoch is right (KIP-101).
    A copy that cannot be read is only chosen if no other one can.
    """
    by_partition: dict[tuple[str, int], list[PartitionCopy]] = defaultdict(list)
    for copy in copies:
        by_partition[copy.topic, copy.partition].append(copy)
    chosen: list[PartitionCopy] = []
    notes: list[str] = []
    equal: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for (topic, partition), candidates in sorted(by_partition.items()):
        if len(candidates) == 1:
            chosen += candidates
            continue
        looked_at = [_look(copy) for copy in candidates]
        best, *rest = [each for each in looked_at if each.is_readable] or looked_at[:1]
        for each in rest:
            if not best.contains(each) and (each.contains(best) or (each.epoch, each.end) > (best.epoch, best.end)):
                best = each
        chosen.append(best.log.copy)
        for each in looked_at:
            if each is not best and each.equals(best):
                equal[topic, folder_of(best.log.copy.folder), folder_of(each.log.copy.folder)].append(partition)
        if others := [str(each) for each in looked_at if each is not best and not each.equals(best)]:
            notes.append(f"{topic}-{partition} is read from {best}; not from {', '.join(others)}")
    notes += [
        f"{topic}: {named_partitions(numbers)} in {folder} and in {other} end with the same batch: read from {folder}"
        for (topic, folder, other), numbers in equal.items()
    ]
    return Choice(chosen, notes)


def _look(copy: PartitionCopy) -> _Looked:
    """The end of a copy; without one if it cannot be read."""
    nothing = BatchColumns.empty()
    if copy.unreadable is not None or not copy.segments:
        return _Looked(SegmentLog(copy), -1, 0, nothing)
    try:
        return settled(copy, _end)[1]
    except NotReadable as error:
        return _Looked(SegmentLog(replace(copy, segments=(), unreadable=str(error))), -1, 0, nothing)


def _end(copy: PartitionCopy) -> _Looked:
    log = SegmentLog(copy)
    last = log.last_batch
    return _Looked(log, log.newest_epoch, int(last.last_offset[0]) + 1 if len(last) else 0, last)
