"""Stage 1: the bytes of one range -> rows of the history tables.

One pass, chunk by chunk. Offset commits stay columns throughout; the few other records are decoded one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.coordinator.releases import NEWEST, Release, release
from kgroups_spark.errors import NotReadable
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder, Undecodable
from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, OffsetKeys, classify
from kgroups_spark.offsets.columns import JoinedLog
from kgroups_spark.records.batches import PADDING
from kgroups_spark.records.columns import BatchColumns, CorruptBatch, RecordColumns
from kgroups_spark.replay.counts import DecodedChunk, GroupTraffic, OddRecords, TopicNames, fitting_partition_counts
from kgroups_spark.replay.history_rows import (
    COLUMNS,
    DECODED_TABLES,
    ROWS_PER_DECODE,
    CommitBatches,
    HistoryRows,
    corrupt_batch_rows,
    ends,
    read_markers,
    record_columns,
)
from kgroups_spark.replay.ranges import LogRange, LogTimes, RangeProgress, RangeReader, ReadContext
from kgroups_spark.sources.files import open_file
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost
from kgroups_spark.sources.segments import OFFSETS_TOPIC
from kgroups_spark.tables.rows import with_columns

Output = tuple[str, pa.Table]


# Memory for the decoded keys of a range's offset commits: some 600,000 keys, which are then not decoded again.
KEYS_BYTES = 64 << 20


# A smaller range is decoded together with those of other partitions, until they have JOINED_BYTES.
SMALL_BYTES, JOINED_BYTES = 1 << 20, 4 << 20


class Chunk(NamedTuple):
    """Records of a range, which are from the file `path` (None: fetched)."""

    number: int
    path: str | None
    records: RecordColumns


class RangeDecoder:
    """Reads a range, or several small ones of different partitions as one joined log: `outputs()` yields (table name,
    rows); the progress of each is complete when it has ended. `progress`: of the first one."""

    def __init__(self, ranges: Sequence[LogRange], context: ReadContext, records: GroupRecordDecoder) -> None:
        self._ranges, self._is_alone = ranges, len(ranges) == 1
        # Records that are read again are not added to history, and no count includes them.
        self._is_new = not ranges[0].is_reread
        self._context = context
        self._release: Release = release(context.release_version)
        self._commits = OffsetCommitDecoder()
        self._records = records
        self._traffic, self._odd, self._topics = GroupTraffic(), OddRecords(), TopicNames()
        self._partitions = [each.offsets_partition for each in self._ranges]
        size_bytes = ranges[0].size_bytes if self._is_alone else 0
        self._batches = CommitBatches(context.audit_id, JoinedLog.over(self._partitions[:1], {}), size_bytes)
        times = partial(LogTimes, context.latest_ms)
        self.progresses = [RangeProgress.of(each, log_times=times()) for each in self._ranges]
        self.progress = self.progresses[0]

    def outputs(self) -> Iterator[Output]:
        """Rows of the history tables: markers without the transaction that they ended, and the counts for
        `group_traffic`. A range that is read again has neither counts nor damage.

        Rows of offset_commits come sorted by offsets partition, group, topic, partition and log offset; texts are
        dictionaries. A partition that turns out not to be readable is given up, if there are others.
        """
        waiting = list[Chunk]()
        for number, log_range in enumerate(self._ranges):
            progress, partition = self.progresses[number], self._partitions[number]
            reader = RangeReader(log_range, self._context, OFFSETS_TOPIC, progress)
            try:
                items = reader.items() if self._is_alone else [(path, _copied(item)) for path, item in reader.items()]
            except NotReadable as err:
                self.progresses[number] = RangeProgress.of(log_range, given_up=str(err))
                continue
            for path, item in items:
                if not isinstance(item, CorruptBatch):
                    progress.note(item)
                    waiting.append(Chunk(number, path, item))
                elif (log_offset := reader.place_of(item, path)) is not None and self._is_new:
                    yield "quarantine", corrupt_batch_rows(self._context.audit_id, partition, log_offset, item, path)
                if waiting and (self._is_alone or sum(len(each.records.data) for each in waiting) >= JOINED_BYTES):
                    yield from self.decoded(waiting)
                    waiting = []
                    yield from self._commit_rows()  # the chunk's columns are freed
        yield from self.decoded(waiting)
        yield from self.rest()

    def _commit_rows(self, *, is_end: bool = False) -> Iterator[Output]:
        for table in self._batches.lot(is_end=is_end):
            self._topics.add_commits(table)
            yield "offset_commits", table

    def rest(self) -> Iterator[Output]:
        """The rows that wait for the end of the log, and its counts, also those of `progresses`."""
        yield from self._commit_rows(is_end=True)
        counts = self._traffic.rows(self._context.audit_id, self._partitions)
        if counts.num_rows and self._is_new:
            yield "group_traffic", counts
        if self._is_new:
            next((each for each in self.progresses if not each.given_up), self.progress).topics = self._topics.rows()
        groups = defaultdict[int, set[str]](set)
        for (number, group_id), _ in self._traffic.counts:
            groups[number].add(group_id)
        for number, progress in enumerate(self.progresses):
            progress.large_records, progress.times_off = self._odd.of(number)
            progress.partition_counts = fitting_partition_counts(groups[number], progress.offsets_partition)

    def decoded(self, chunks: Sequence[Chunk]) -> Iterator[Output]:
        """The same of some chunks, without the rows of offset_commits."""
        if not chunks:
            return
        read = chunks[-1].number + 1
        ends_of = {each.offsets_partition: each.next_offset for each in self.progresses}
        log = self._batches.log = JoinedLog.over(self._partitions[:read], ends_of)
        records = chunks[0].records
        if not self._is_alone:
            records = _joined([each.records for each in chunks], [int(log.starts[each.number]) for each in chunks])
        number = log.number_at(records.offset)
        commit_rows, other_rows, control_rows = classify(records)
        commits = self._commits.decode(records, commit_rows)
        markers, unreadable = read_markers(records, control_rows)
        others = [*zip(other_rows.tolist(), self._records.decode_rows(records, other_rows), strict=True)]
        decoded = [(row, what) for row, what in others if isinstance(what, CoordinatorRecord)]
        undecodable = [(row, what) for row, what in others if isinstance(what, Undecodable)]
        bad = sorted([*commits.undecodable, *undecodable, *unreadable], key=itemgetter(0))
        chunk = DecodedChunk(records, number, commits, self._commits.keys, decoded)
        self._traffic.add_chunk(chunk)
        if self._is_new:
            self._odd.add_chunk(chunk, log.starts)
            kind = number[commits.rows] * 2 + chunk.keys.record_type[commits.code]
            counts = np.bincount(kind * 16 + commits.value_version + 1)  # no release has versions above 14
            for each in np.flatnonzero(counts).tolist():
                (at, record_type), version = divmod(each // 16, 2), each % 16 - 1
                self.progresses[at].record_counts[record_type, None if version < 0 else version] += int(counts[each])
            for row, record in decoded:
                self.progresses[number[row]].record_counts[record.record_type, record.value_version] += 1
                if record.record_type in TopicNames.types:  # only then the value is parsed
                    self._topics.add_value(record.record_type, record.value, int(records.timestamp[row]))
            for row, what in bad:
                self.progresses[number[row]].quarantined[what.reason] += 1
        self._batches.add(records, commits, self._commits.keys, ends(markers, log))
        rows = HistoryRows(self._context.audit_id, log, records)
        if decoded:
            yield "group_records", rows.group_records(decoded)
        if markers:
            yield "transaction_markers", rows.markers(markers)
        last = np.cumsum([len(each.records) for each in chunks])
        for at, some in groupby(bad, key=lambda each: int(np.searchsorted(last, each[0], side="right"))):
            yield "quarantine", rows.quarantine(list(some), chunks[at].path, self._release)
        if self._commits.keys.size_bytes > KEYS_BYTES:
            self._commits.keys = OffsetKeys()


def _copied(records: RecordColumns | CorruptBatch) -> RecordColumns | CorruptBatch:
    """The records with bytes of their own, no more than they need."""
    if isinstance(records, CorruptBatch):
        return records
    key, value = records.key_start, records.value_start
    end = int(np.maximum(key + records.key_length, value + records.value_length).max(initial=0))
    start = int(np.minimum(key, value).min(initial=end))
    data = records.data[start : end + PADDING].copy()
    return replace(records, data=data, key_start=key - start, value_start=value - start)


def _joined(parts: list[RecordColumns], starts: list[int]) -> RecordColumns:
    """Records of several partitions as those of a joined log, in which they begin at `starts`."""

    def column(name: str, shifts: Sequence[int] = [0] * len(parts)) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) + n for part, n in zip(parts, shifts, strict=False)])

    at = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
    batch = np.cumsum([0, *(len(part.batches) for part in parts)]).tolist()
    batches = [replace(p.batches, base_offset=p.batches.base_offset + n) for p, n in zip(parts, starts, strict=True)]
    return RecordColumns(
        np.concatenate([*(part.data for part in parts), np.zeros(PADDING, np.uint8)]),
        BatchColumns.concat(batches),
        *(column("batch", batch), column("offset", starts), column("timestamp")),
        *(column("key_start", at), column("key_length"), column("value_start", at), column("value_length")),
    )


def decoded_again(quarantine: pa.Table, offsets_partition: int, audit_id: int) -> Iterator[Output]:
    """Rows of DECODED_TABLES for records in quarantine that decode now; it keeps no producer epoch."""
    context, rows = ReadContext(audit_id, NEWEST, open_file), quarantine.select(COLUMNS).sort_by("log_offset")
    decoder = RangeDecoder([LogRange(offsets_partition, 0, 0, ())], context, GroupRecordDecoder())
    some = (rows.slice(start, ROWS_PER_DECODE).to_pylist() for start in range(0, len(rows), ROWS_PER_DECODE))
    decoded = (decoder.decoded([Chunk(0, None, record_columns(each))]) for each in some)
    for name, table in chain(chain.from_iterable(decoded), decoder.rest()):
        if name == "offset_commits":
            table = with_columns(table, producer_epoch=pa.nulls(len(table), pa.int16()))
        if name in DECODED_TABLES and table.num_rows:
            yield name, table


# The work of one reading task: its ranges, partition by partition.
#
# A live log is cleaned while it is read. A record that existed at planning may be removed before it is read, because a
# newer record of its key is after the planned end: a reader that stops at that end has neither. So a task reads on.
# When it has read the planned range of a partition, it asks for the current high watermark and reads up to it, and so
# on, until a span has no gap. The records read are then a state that the log really had, at the end of that span:
#
# - Let E be that end, and r the last record of its key below E. If r is in the last span, it was read, because no
#   offset of that span is missing. If r is before that span, it was read unless the cleaner had removed it. But the
#   cleaner removes a record only because of a newer one below the high watermark of that time
#   (LogCleanerManager.cleanableOffsets 4.3.1: below the last stable offset). E was asked for later, so that newer
#   record would be below E.
# - An abort marker hides records by the same rule. Tombstones and markers themselves are removed `delete.retention.ms`
#   after they were first cleaned; R6 of docs/design.md handles that.
#
# Therefore one task reads all of a partition. Spans shrink to the records written during one fetch, so two rounds are
# usual. After more than MOST_ROUNDS no reader can follow the cleaner, and the ledger's notes report the partition.


MOST_ROUNDS = 20


class Decodes(Protocol):
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
        for read_on in range(1, MOST_ROUNDS + 1):
            start, end = end, self.context.live.end_of(piece)
            if end <= start:
                return
            rest = piece.after(start, end)
            decoder = self.decoder(LogRange(self.offsets_partition, number + read_on, start, (rest,)))
            yield decoder
            if not decoder.progress.missing:
                return
            end = decoder.progress.next_offset

    def given_up(self, why: NotReadable) -> RangeProgress:
        """The progress for the driver if no record of this partition counts, because of `why`."""
        return RangeProgress.of(self.ranges[0], given_up=str(why), leader_lost=isinstance(why, LeaderLost))


def readings(ranges: Sequence[LogRange], context: ReadContext) -> Iterator[PartitionReading[RangeDecoder]]:
    """The partitions of the ranges of a task, in order; small ones are neighbours of the first of them."""
    records = GroupRecordDecoder()
    in_order = sorted(ranges, key=lambda log_range: (log_range.offsets_partition, log_range.number))
    of_partitions = [list(of_one) for _, of_one in groupby(in_order, key=lambda log_range: log_range.offsets_partition)]
    small = [of_one[0] for of_one in of_partitions if _is_small(of_one)]
    for of_one in [small[:1], *(each for each in of_partitions if not _is_small(each))]:
        if of_one:
            neighbours = small[1:] if of_one == small[:1] else []

            def decoder(log_range: LogRange, neighbours: list[LogRange] = neighbours) -> RangeDecoder:
                return RangeDecoder([log_range, *neighbours], context, records)

            yield PartitionReading(of_one[0].offsets_partition, of_one, context, decoder)


def _is_small(of_one: Sequence[LogRange]) -> bool:
    """Whether the range is all that is read of the partition, from files, and small."""
    (first, *others) = of_one
    is_live = any(isinstance(piece, FetchPiece) for piece in first.pieces)
    return not others and not is_live and not first.is_reread and first.size_bytes <= SMALL_BYTES


def is_unsettled(progress: RangeProgress) -> bool:
    """Whether the last allowed round still had gaps: the log may never have had the state that was read."""
    return progress.number >= MOST_ROUNDS and progress.missing > 0
