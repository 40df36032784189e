"""The work of one reading task: its ranges, partition by partition.

A live log is cleaned while it is read. A record that existed at planning may be removed before it is read, because a
newer record of its key is after the planned end: a reader that stops at that end has neither. So a task reads on. When
it has read the planned range of a partition, it asks for the current high watermark and reads up to it, and so on,
until a span has no gap. The records read are then a state that the log really had, at the end of that span:

- Let E be that end, and r the last record of its key below E. If r is in the last span, it was read, because no offset
  of that span is missing. If r is before that span, it was read unless the cleaner had removed it. But the cleaner
  removes a record only because of a newer one below the high watermark of that time (LogCleanerManager.cleanableOffsets
  4.3.1: below the last stable offset). E was asked for later, so that newer record would be below E.
- An abort marker hides records by the same rule. Tombstones and markers themselves are removed `delete.retention.ms`
  after they were first cleaned; R6 of docs/design.md handles that.

Therefore one task reads all of a partition. Spans shrink to the records written during one fetch, so two rounds are
usual. After more than MOST_ROUNDS no reader can follow the cleaner, and the ledger's notes report the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from kgroups_spark.decoding.range_decoder import RangeDecoder
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.errors import NotReadable
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost

MOST_ROUNDS = 20


class Decodes(Protocol):
    """The reader of a range, and its progress."""

    progress: RangeProgress


Decoder = TypeVar("Decoder", bound=Decodes)


@dataclass(frozen=True)
class PartitionReading(Generic[Decoder]):
    """The ranges of one partition that a task must read, each by its own decoder."""

    offsets_partition: int
    ranges: Sequence[LogRange]
    context: ReadContext
    decoder: Callable[[LogRange], Decoder]

    def decoders(self) -> Iterator[Decoder]:
        """A decoder for each range; the caller reads each to its end before it takes the next one.

        Ranges after the planned ones have the next numbers. Raises the errors of the log, among others NotReadable.
        """
        piece = self.ranges[-1].pieces[-1]
        if not isinstance(piece, FetchPiece):
            yield from map(self.decoder, self.ranges)
            return
        missing = number = 0
        end = piece.end_offset
        for log_range in (each for each in self.ranges if not each.is_reread):
            decoder = self.decoder(log_range)
            yield decoder
            number, end = log_range.number, decoder.progress.next_offset
            missing += decoder.progress.missing
        for log_range in (each for each in self.ranges if each.is_reread):
            if missing or not log_range.only_if_missing:
                yield self.decoder(log_range)
        yield from self._read_on(piece, number + 1, end)

    def given_up(self, why: NotReadable) -> RangeProgress:
        """The progress for the driver if no record of this partition counts, because of `why`."""
        return RangeProgress.of(self.ranges[0], given_up=str(why), leader_lost=isinstance(why, LeaderLost))

    def _read_on(self, piece: FetchPiece, number: int, start: int) -> Iterator[Decoder]:
        for read_on in range(MOST_ROUNDS):
            end = self.context.live.end_of(piece)
            if end <= start:
                return
            rest = piece.after(start, end)
            decoder = self.decoder(LogRange(self.offsets_partition, number + read_on, start, (rest,)))
            yield decoder
            if not decoder.progress.missing:
                return
            start = decoder.progress.next_offset


def readings(ranges: Sequence[LogRange], context: ReadContext) -> Iterator[PartitionReading[RangeDecoder]]:
    """The partitions of the ranges of a task, in order."""
    records = GroupRecordDecoder()

    def decoder(log_range: LogRange) -> RangeDecoder:
        return RangeDecoder(log_range, context, records)

    in_order = sorted(ranges, key=lambda log_range: (log_range.offsets_partition, log_range.number))
    for partition, of_one in groupby(in_order, key=lambda log_range: log_range.offsets_partition):
        yield PartitionReading(partition, list(of_one), context, decoder)


def is_unsettled(progress: RangeProgress) -> bool:
    """Whether the last allowed round still had gaps: the log may never have had the state that was read."""
    return progress.number >= MOST_ROUNDS and progress.missing > 0
