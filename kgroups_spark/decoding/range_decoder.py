"""Stage 1: the bytes of one range -> rows of the history tables.

One pass, chunk by chunk. Offset commits stay columns throughout; the few other records are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.coordinator.releases import Release, release
from kgroups_spark.decoding.commit_rows import CommitBatches
from kgroups_spark.decoding.group_traffic import GroupTraffic
from kgroups_spark.decoding.log_times import LogTimes
from kgroups_spark.decoding.markers import ends, read_markers
from kgroups_spark.decoding.odd_records import OddRecords
from kgroups_spark.decoding.partition_count import FittingCounts
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.range_reader import RangeReader
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.decoding.record_rows import HistoryRows, corrupt_batch_rows, is_misread
from kgroups_spark.decoding.topic_names import TOPIC_FIELDS, TopicNames
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetCommitDecoder, classify
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
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
        decoded, undecodable = self._decode_others(records, other_rows)
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

    def _decode_others(
        self, records: RecordColumns, rows: NDArray[np.int64]
    ) -> tuple[list[tuple[int, CoordinatorRecord]], list[tuple[int, Undecodable]]]:
        decoded: list[tuple[int, CoordinatorRecord]] = []
        undecodable: list[tuple[int, Undecodable]] = []
        for row, what in zip(rows.tolist(), self._records.decode_rows(records, rows), strict=True):
            if isinstance(what, Undecodable):
                undecodable.append((row, what))
            else:
                decoded.append((row, what))
        return decoded, undecodable

    def _learn_topics(
        self, records: RecordColumns, commits: OffsetCommitColumns, decoded: list[tuple[int, CoordinatorRecord]]
    ) -> None:
        self._topics.add_commits(
            commits.code.astype(np.int64), commits.topic_id, records.timestamp[commits.rows], self._topic_of
        )
        self._fitting.see({record.group_id for _, record in decoded})
        for row, record in decoded:
            if record.record_type in TOPIC_FIELDS:
                self._topics.add_value(record.record_type, record.value, int(records.timestamp[row]))

    def _topic_of(self, code: int) -> str:
        topic: str = self._commits.keys.topic[code].as_py()
        return topic
