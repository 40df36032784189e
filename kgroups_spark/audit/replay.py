"""Stage 2: one offsets partition after the other through its shard, in log order.

Rows come sorted by offsets partition and log offset, the saved state first. What comes out are rows of the lake's
tables: the current ones, the versions, the markers that only the replay can complete, what a real coordinator would have
failed to load, and the state that the next audit goes on from.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, BinaryIO

import pyarrow as pa

from kgroups_spark.audit.replay_rows import (
    FILE,
    FIRST_VALUE,
    MARKER,
    RECORD,
    REPLAY_ROWS,
    STATE,
    TOMBSTONE,
    UNREADABLE,
    VALUE,
)
from kgroups_spark.audit.rows import table_batch
from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata
from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.state_rows import StateRow
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.messages.group_records import GroupRecord, GroupRecordDecoder, value_from_json
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.messages.schema import reader

CHANGES_AT_ONCE = 8192

Row = tuple[Any, ...]
Output = tuple[str, pa.RecordBatch]

(
    _PARTITION,
    _OFFSET,
    _KIND,
    _TIMESTAMP,
    _TYPE,
    _VERSION,
    _PRODUCER,
    _EPOCH,
    _TRANSACTIONAL,
    _GROUP,
    _TOPIC,
    _TOPIC_PARTITION,
    _COMMITTED,
    _LEADER_EPOCH,
    _METADATA,
    _COMMIT_TIME,
    _EXPIRE_TIME,
    _TOPIC_ID,
    _RAW_KEY,
    _RAW_VALUE,
    _MEMBER,
    _REGEX,
    _TEXT,
    _OUTCOME,
    _COORDINATOR_EPOCH,
    _CONTROL_TYPE,
    _DEFERRED,
) = range(len(REPLAY_ROWS))


@dataclass(frozen=True)
class ReplayContext:
    """What a replay needs besides its rows. `topics` names topic ids, as far as any partition's log does.

    `history_from`: per offsets partition where this audit's part of the log begins; versions, markers and failures
    before it stand in the history already (a rebuild replays them again).
    """

    audit_id: int
    release_version: str
    offsets_partitions: int | None
    topics: Topics
    open_file: Callable[[str], BinaryIO]
    history_from: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class JsonRecord:
    """A record of types 2 to 23 as `group_records` has it."""

    record_type: int
    group_id: str
    member_id: str | None
    regular_expression: str | None
    value_version: int | None
    text: str | None

    @property
    def record_name(self) -> str:
        return CONSUMER_OFFSETS[self.record_type].name

    @property
    def value(self) -> dict[str, Any] | None:
        return None if self.text is None else value_from_json(self.record_type, self.text)


class NoTopics(Topics):
    """Versions say what the record says: names learnt later must not depend on where a night ended."""

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        pass


def replay_partitions(batches: Iterable[pa.RecordBatch], context: ReplayContext) -> Iterator[Output]:
    """(table name, rows) of every offsets partition among the replay rows."""
    rows, decoder = (row for batch in batches for row in _rows(batch)), GroupRecordDecoder()
    for offsets_partition, of_one in itertools.groupby(rows, key=itemgetter(_PARTITION)):
        yield from _ShardReplay(offsets_partition, context, decoder).run(of_one)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _rows_of_file(offsets_partition: int, path: str, open_file: Callable[[str], BinaryIO]) -> Iterator[Row]:
    """One range's rows in log order: its records of types 2 to 23 and the rest stand in batches of their own."""
    with open_file(path) as source, pa.ipc.open_file(source) as reader:
        records, others = [], []
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            of_records = batch.num_rows and batch.column(_KIND)[0].as_py() in (RECORD, UNREADABLE)
            (records if of_records else others).append(number)

        def stream(numbers: list[int]) -> Iterator[Row]:
            for number in numbers:
                yield from _rows(reader.get_batch(number))

        for row in heapq.merge(stream(records), stream(others), key=itemgetter(_OFFSET)):
            yield (offsets_partition, *row[1:])


class _ShardReplay:
    def __init__(self, offsets_partition: int, context: ReplayContext, decoder: GroupRecordDecoder) -> None:
        self._partition = offsets_partition
        self._context = context
        self._history_from = context.history_from.get(offsets_partition, -1)
        self._release = release(context.release_version)
        self._shard = Shard(self._release, offsets_partition)
        self._decoder = decoder
        self._failures: list[Row] = []
        self._markers: list[Row] = []

    def run(self, rows: Iterator[Row]) -> Iterator[Output]:
        """Replays the rows of the partition; the versions leave as they come, everything else at the end."""
        state: list[StateRow] = []
        flat = self._flat(rows, state)
        first = next(flat, None)
        self._shard = Shard.load(self._release, self._partition, state, recording=True)
        self._shard.topics = NoTopics()
        pending = 0
        for row in itertools.chain([first] if first else [], flat):
            try:
                self._replay(row)
            except ReplayFailure as failure:
                self._failed(row, failure)
            pending += 1
            if pending >= CHANGES_AT_ONCE:
                pending = 0
                yield from self._changes()
        yield from self._changes()
        yield from self._current()

    def _flat(self, rows: Iterator[Row], state: list[StateRow]) -> Iterator[Row]:
        for row in rows:
            if row[_KIND] == STATE:
                state.append(StateRow(row[_OUTCOME], row[_GROUP], row[_TEXT]))
            elif row[_KIND] == FILE:
                yield from _rows_of_file(self._partition, row[_TEXT], self._context.open_file)
            else:
                yield row

    def _replay(self, row: Row) -> None:
        kind, offset, timestamp = row[_KIND], row[_OFFSET], _time(row[_TIMESTAMP])
        if kind == VALUE or kind == TOMBSTONE:
            self._shard.replay_offset_commit(
                offset,
                timestamp,
                row[_TYPE],
                row[_GROUP],
                row[_TOPIC],
                row[_TOPIC_PARTITION],
                _offset_and_metadata(row) if kind == VALUE else None,
                row[_PRODUCER],
                row[_EPOCH],
                row[_TRANSACTIONAL],
            )
        elif kind == RECORD:
            record = self._record(row)
            self._shard.replay_group_record(
                offset,
                timestamp,
                record.record_type,
                record.group_id,
                record.member_id,
                record.regular_expression,
                record.value,
                row[_PRODUCER],
                row[_EPOCH],
                row[_TRANSACTIONAL],
                record.value_version,
            )
        elif kind == UNREADABLE:
            self._shard.transactional_record(offset, timestamp, row[_PRODUCER], row[_EPOCH])
        elif kind == MARKER:
            self._end_transaction(row, timestamp)
        else:
            assert kind == FIRST_VALUE, kind
            self._shard.keep_group(offset, timestamp, row[_GROUP])

    def _record(self, row: Row) -> GroupRecord | JsonRecord:
        if row[_RAW_KEY] is None:
            return JsonRecord(row[_TYPE], row[_GROUP], row[_MEMBER], row[_REGEX], row[_VERSION], row[_TEXT])
        record = self._decoder.decode(row[_RAW_KEY], row[_RAW_VALUE])
        assert isinstance(record, GroupRecord), record
        return record

    def _end_transaction(self, row: Row, timestamp: int | None) -> None:
        ended = self._shard.end_transaction(row[_OFFSET], timestamp, row[_PRODUCER], row[_OUTCOME])
        if row[_DEFERRED] and row[_OFFSET] >= self._history_from:
            named = row[_OUTCOME] is not None
            self._markers.append(
                (
                    row[_OFFSET],
                    timestamp,
                    None if row[_PRODUCER] < 0 else row[_PRODUCER],
                    None if row[_EPOCH] < 0 else row[_EPOCH],
                    row[_COORDINATOR_EPOCH],
                    row[_CONTROL_TYPE],
                    row[_OUTCOME],
                    ended.transaction_start_offset,
                    ended.offset_count if named else None,
                    ended.group_ids if named else None,
                )
            )

    def _failed(self, row: Row, failure: ReplayFailure) -> None:
        if row[_OFFSET] < self._history_from:
            return
        is_commit = row[_KIND] in (VALUE, TOMBSTONE)
        record = None if is_commit or row[_KIND] == MARKER else self._record(row)
        record_type = row[_TYPE] if record is None else record.record_type
        name = None if record_type is None else CONSUMER_OFFSETS[record_type].name
        self._failures.append(
            (
                row[_OFFSET],
                _time(row[_TIMESTAMP]),
                record_type,
                name,
                row[_GROUP] if record is None else record.group_id,
                row[_TOPIC],
                row[_TOPIC_PARTITION],
                row[_VERSION] if record is None else record.value_version,
                None if row[_PRODUCER] is None or row[_PRODUCER] < 0 else row[_PRODUCER],
                "load_would_fail",
                str(failure),
            )
        )

    def _changes(self) -> Iterator[Output]:
        changes = [c for c in self._shard.take_changes() if c.log_offset >= self._history_from]
        for name, kind in (
            ("group_versions", shard_rows.GroupVersion),
            ("group_member_versions", shard_rows.MemberVersion),
        ):
            rows = [c for c in changes if isinstance(c, kind)]
            if rows:
                yield name, table_batch(name, kind._fields, rows, audit_id=self._context.audit_id)

    def _current(self) -> Iterator[Output]:
        shard, context = self._shard, self._context
        shard.topics = context.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, shard.group_rows(context.offsets_partitions)),
            ("group_members", shard_rows.MemberRow, shard.member_rows()),
            ("committed_offsets", shard_rows.CommittedRow, shard.committed_rows()),
            ("pending_offsets", shard_rows.PendingRow, shard.pending_rows()),
            ("open_transactions", shard_rows.OpenTransactionRow, shard.open_transaction_rows()),
        ):
            for some in _in_lots(rows):
                yield name, table_batch(name, row_type._fields, some, audit_id=context.audit_id)
        shard.topics = NoTopics()  # the table `topics` has them
        constants = {"audit_id": context.audit_id, "offsets_partition": self._partition}
        for some in _in_lots(shard.save()):
            yield "coordinator_state", table_batch("coordinator_state", StateRow._fields, some, **constants)
        if self._markers:
            yield (
                "transaction_markers",
                table_batch("transaction_markers", _MARKER_COLUMNS, self._markers, **constants),
            )
        if self._failures:
            unknown = {"record_count": 0, "coordinator_fails": True, "file": None, "file_position": None}
            unknown |= {"raw_key": None, "raw_value": None, "resolved_by": None}
            yield (
                "quarantine",
                table_batch("quarantine", _FAILURE_COLUMNS, self._failures, **constants, **unknown),
            )


_MARKER_COLUMNS = (
    "log_offset",
    "log_timestamp",
    "producer_id",
    "producer_epoch",
    "coordinator_epoch",
    "control_type",
    "outcome",
    "transaction_start_offset",
    "offset_count",
    "group_ids",
)
_FAILURE_COLUMNS = (
    "log_offset",
    "log_timestamp",
    "record_type",
    "record_name",
    "group_id",
    "topic",
    "partition",
    "value_version",
    "producer_id",
    "reason",
    "detail",
)


def _time(timestamp: int | None) -> int | None:
    return None if timestamp is None or timestamp < 0 else timestamp


def _offset_and_metadata(row: Row) -> OffsetAndMetadata:
    commit_timestamp, expire_timestamp = row[_COMMIT_TIME], row[_EXPIRE_TIME]
    if row[_RAW_VALUE] is not None:
        fields, _ = reader("OffsetCommitValue", row[_VERSION]).read(row[_RAW_VALUE], 2, [])
        commit_timestamp = fields["commitTimestamp"]
        expire_timestamp = fields.get("expireTimestamp", -1)
    return OffsetAndMetadata(
        row[_COMMITTED],
        None if row[_LEADER_EPOCH] == -1 else row[_LEADER_EPOCH],
        row[_METADATA],
        commit_timestamp,
        None if expire_timestamp == -1 else expire_timestamp,
        row[_TOPIC_ID],
        row[_VERSION],
    )


def _in_lots(rows: Iterable[Any]) -> Iterator[list[Any]]:
    rows = iter(rows)
    while some := list(itertools.islice(rows, 16384)):
        yield some
