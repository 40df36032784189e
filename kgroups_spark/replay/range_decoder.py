"""Stage 1: the bytes of one range -> rows of the history tables.

One pass, chunk by chunk. Offset commits stay columns throughout; the few other records are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.releases import Release, release
from kgroups_spark.errors import NotReadable
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder, Undecodable
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetCommitDecoder, OffsetKeys, classify
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.replay.counts import TOPIC_FIELDS, FittingCounts, GroupTraffic, OddRecords, TopicNames
from kgroups_spark.replay.history_rows import (
    CommitBatches,
    HistoryRows,
    corrupt_batch_rows,
    ends,
    is_misread,
    read_markers,
)
from kgroups_spark.replay.log_times import LogTimes
from kgroups_spark.replay.ranges import LogRange, RangeProgress, RangeReader, ReadContext
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost
from kgroups_spark.sources.segments import OFFSETS_TOPIC

Output = tuple[str, pa.Table | pa.RecordBatch]


# Memory for the decoded keys of a range's offset commits: some 600,000 keys, which are then not decoded again.
KEYS_BYTES = 64 << 20


class RangeDecoder:
    """Reads one range: `outputs()` yields (table name, rows); `progress` is complete when it has ended."""

    def __init__(self, log_range: LogRange, context: ReadContext, records: GroupRecordDecoder) -> None:
        self._range = log_range
        # Records that are read again are not added to history, and no count includes them.
        self._is_new = not log_range.is_reread
        self._context = context
        self._release: Release = release(context.release_version)
        self._commits = OffsetCommitDecoder()
        self._records = records
        self._traffic, self._odd = GroupTraffic(), OddRecords()
        self._topics, self._fitting = TopicNames(), FittingCounts(log_range.offsets_partition)
        self._batches = CommitBatches(context.audit_id, log_range.offsets_partition)
        self.progress = RangeProgress.of(log_range, log_times=LogTimes(context.latest_ms))
        self._reader = RangeReader(log_range, self._context, OFFSETS_TOPIC, self.progress)

    def outputs(self) -> Iterator[Output]:
        """Rows of the history tables: markers without the transaction that they ended, and the range's counts for
        `group_traffic`. A range that is read again has neither counts nor damage.

        Rows of offset_commits come in lots, sorted by group, topic, partition and log offset; texts are dictionaries.
        """
        for path, item in self._reader.items():
            yield from self._corrupt(item, path) if isinstance(item, CorruptBatch) else self._chunk(item, path)
        for lot in self._batches.rest():
            yield "offset_commits", lot
        counts = self._traffic.batch(audit_id=self._context.audit_id, offsets_partition=self._range.offsets_partition)
        if counts.num_rows:
            yield "group_traffic", counts
        self._forget_keys()
        self.progress.topics = self._topics.rows()
        self.progress.large_records, self.progress.times_off = self._odd.large, self._odd.times_off
        self.progress.partition_counts = self._fitting.rest()

    def _chunk(self, records: RecordColumns, path: str | None) -> Iterator[Output]:
        progress = self.progress
        progress.note(records)
        commit_rows, other_rows, control_rows = classify(records)
        commits = self._commits.decode(records, commit_rows)
        markers, unreadable = read_markers(records, control_rows)
        others = [*zip(other_rows.tolist(), self._records.decode_rows(records, other_rows), strict=True)]
        decoded = [(row, what) for row, what in others if isinstance(what, CoordinatorRecord)]
        undecodable = [(row, what) for row, what in others if isinstance(what, Undecodable)]
        bad = sorted([*commits.undecodable, *undecodable, *unreadable], key=itemgetter(0))
        if self._is_new:
            self._learn_topics(records, commits, decoded)
            progress.count(self._commits.keys.record_type[commits.code], commits.value_version)
            progress.record_counts.update((r.record_type, r.value_version) for _, r in decoded)
            self._traffic.add_chunk(records, commits, self._commits.keys, decoded)
            self._odd.add_chunk(records, commits, self._commits.keys, decoded)
            progress.quarantined.update(what.reason for _, what in bad)
        for lot in self._batches.add(records, commits, self._commits.keys, ends(markers)):
            yield "offset_commits", lot
        rows = HistoryRows(self._context.audit_id, self._range.offsets_partition, records)
        if decoded:
            yield "group_records", rows.group_records(decoded)
        if markers:
            yield "transaction_markers", rows.markers(markers)
        if bad:
            yield "quarantine", rows.quarantine(bad, path, self._release)
        misread = [(row, record) for row, record in decoded if is_misread(record, self._release)]
        if misread and self._is_new:
            progress.quarantined["load_would_fail"] += len(misread)
            yield "quarantine", rows.load_failures(misread, self._release)
        if self._commits.keys.size_bytes > KEYS_BYTES:
            self._forget_keys()

    def _forget_keys(self) -> None:
        """Drops the remembered keys, after the collectors have resolved their codes."""
        self._topics.settle_commits(self._commits.keys.topic)
        self._fitting.see(self._commits.keys.groups)
        self._commits.keys = OffsetKeys()

    def _corrupt(self, batch: CorruptBatch, path: str | None) -> Iterator[Output]:
        log_offset = self._reader.place_of(batch, path)
        if log_offset is not None and self._is_new:
            rows = corrupt_batch_rows(self._context.audit_id, self._range.offsets_partition, log_offset, batch, path)
            yield "quarantine", rows

    def _learn_topics(
        self, records: RecordColumns, commits: OffsetCommitColumns, decoded: list[tuple[int, CoordinatorRecord]]
    ) -> None:
        topics, time = self._commits.keys.topic, records.timestamp[commits.rows]
        code = commits.code.astype(np.int64)
        self._topics.add_commits(code, commits.topic_id, time, lambda code: topics[code].as_py())
        self._fitting.see({record.group_id for _, record in decoded})
        for row, record in decoded:
            if record.record_type in TOPIC_FIELDS:
                self._topics.add_value(record.record_type, record.value, int(records.timestamp[row]))


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
