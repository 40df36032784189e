"""The replay of an offsets partition by a shard of objects, record by record: the slow, obvious twin of
kgroups_spark/replay.

Rows are sorted by offsets partition and log offset (object_rows.py makes them from tables). Times are epoch ms, and
Kafka's -1 stays -1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.releases import ReplayFailure
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS, JsonRecord
from kgroups_spark.messages.schema import reader
from kgroups_spark.replay.rows import event_batches
from kgroups_spark.replay.shard import Night, Output, in_lots
from kgroups_spark.tables.definitions import CHECKPOINTS, NIGHT
from kgroups_spark.tables.rows import table_batch
from tests.coordinator.no_topics import NoTopics
from tests.twin.offset_metadata import OffsetAndMetadata
from tests.twin.shard import Shard
from tests.twin.shard_rows import CommittedRow, OpenTransactionRow, PendingRow
from tests.twin.transactions import EndedTransaction

# The kinds of rows, in the order in which a shard takes them at one log offset: a correction comes before the records.
CORRECTION, VALUE, TOMBSTONE, RECORD, UNREADABLE, MARKER = range(6)

REPLAY_ROWS = pa.schema(
    [
        ("offsets_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("kind", pa.int8()),
        ("log_timestamp", pa.int64()),
        ("record_type", pa.int16()),
        ("value_version", pa.int16()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("is_transactional", pa.bool_()),
        ("offset_delta", pa.int32()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", pa.int64()),
        ("expire_timestamp", pa.int64()),
        ("topic_id", pa.string()),
        ("raw_value", pa.binary()),
        ("member_id", pa.string()),
        ("regular_expression", pa.string()),
        ("text", pa.string()),
        ("outcome", pa.string()),
        ("coordinator_epoch", pa.int32()),
        ("control_type", pa.int16()),
    ]
)

Row = tuple[Any, ...]

# Where the columns of REPLAY_ROWS are in a row.
(
    PARTITION,
    LOG_OFFSET,
    KIND,
    TIMESTAMP,
    TYPE,
    VERSION,
    PRODUCER,
    EPOCH,
    TRANSACTIONAL,
    DELTA,
    GROUP,
    TOPIC,
    TOPIC_PARTITION,
    COMMITTED,
    LEADER_EPOCH,
    METADATA,
    COMMIT_TIME,
    EXPIRE_TIME,
    TOPIC_ID,
    RAW_VALUE,
    MEMBER,
    REGEX,
    TEXT,
    OUTCOME,
    COORDINATOR_EPOCH,
    CONTROL_TYPE,
) = range(len(REPLAY_ROWS))
# After them: the value of a commit, where those of a batch have been made together.
OF_COMMIT = len(REPLAY_ROWS)
_VALUE = (COMMITTED, LEADER_EPOCH, METADATA, COMMIT_TIME, EXPIRE_TIME, TOPIC_ID, VERSION)


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The batch's rows. In most batches most columns are entirely null, and cost nothing."""
    columns = [
        itertools.repeat(None, batch.num_rows) if column.null_count == batch.num_rows else column.to_pylist()
        for column in batch.columns
    ]
    return zip(*columns, _values(batch), strict=True)


def _values(batch: pa.RecordBatch) -> Iterable[OffsetAndMetadata | None]:
    """The values of a batch with commits and without records of types 2 to 23, decoded at once; otherwise None for each
    row. Rows without a commit's value get an arbitrary one, which is not used."""
    kinds = set(batch.column(KIND).unique().to_pylist())
    if VALUE not in kinds or RECORD in kinds or batch.column(RAW_VALUE).null_count < batch.num_rows:
        return itertools.repeat(None, batch.num_rows)
    fields = zip(*(_or_null(batch, at).to_pylist() for at in _VALUE), strict=True)
    return map(partial(tuple.__new__, OffsetAndMetadata), fields)  # all in C


def _or_null(batch: pa.RecordBatch, at: int) -> pa.Array:
    """A column, with null for -1 if that means none."""
    column = batch.column(at)
    if at not in (LEADER_EPOCH, EXPIRE_TIME):
        return column
    return pc.if_else(pc.equal(column, -1), pa.scalar(None, column.type), column)


class RowReplay:
    """Replays rows into a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def replay(self, row: Row) -> EndedTransaction | None:
        """Replays the row. Returns the transaction that a marker ended, None for other rows. Raises ReplayFailure as
        the shard does."""
        shard, kind, offset, timestamp = self._shard, row[KIND], row[LOG_OFFSET], row[TIMESTAMP]
        if timestamp is not None and timestamp < 0:
            timestamp = None
        shard.batch_offset = None if row[DELTA] is None else offset - row[DELTA]
        if kind in (VALUE, TOMBSTONE):
            value = None if kind == TOMBSTONE else row[OF_COMMIT] or _offset_and_metadata(row)
            shard.replay_offset_commit(
                offset,
                timestamp,
                row[TYPE],
                row[GROUP],
                row[TOPIC],
                row[TOPIC_PARTITION],
                value,
                row[PRODUCER],
                row[EPOCH],
                row[TRANSACTIONAL],
            )
        elif kind == RECORD:
            self._replay_record(row)
        elif kind == UNREADABLE:
            shard.transactional_record(offset, timestamp, row[PRODUCER])
        else:
            assert kind == MARKER, kind
            return shard.end_transaction(offset, timestamp, row[PRODUCER], row[OUTCOME])
        return None

    def _replay_record(self, row: Row) -> None:
        record = JsonRecord(row[TYPE], row[GROUP], row[MEMBER], row[REGEX], row[VERSION], row[TEXT])
        self._shard.replay_group_record(
            row[LOG_OFFSET],
            time_ms(row[TIMESTAMP]),
            record.record_type,
            record.group_id,
            record.member_id,
            record.regular_expression,
            record.value,
            record.value_version,
            producer_id=row[PRODUCER],
            is_transactional=row[TRANSACTIONAL],
        )


def time_ms(timestamp: int | None) -> int | None:
    """A log time in epoch ms; None: there is none."""
    return None if timestamp is None or timestamp < 0 else timestamp


def _offset_and_metadata(row: Row) -> OffsetAndMetadata:
    commit_timestamp, expire_timestamp = row[COMMIT_TIME], row[EXPIRE_TIME]
    if row[RAW_VALUE] is not None:
        fields, _ = reader("OffsetCommitValue", row[VERSION]).read(row[RAW_VALUE], 2, [])
        commit_timestamp = fields["commitTimestamp"]
        expire_timestamp = fields.get("expireTimestamp", -1)
    return OffsetAndMetadata(
        row[COMMITTED],
        None if row[LEADER_EPOCH] == -1 else row[LEADER_EPOCH],
        row[METADATA],
        commit_timestamp,
        None if expire_timestamp == -1 else expire_timestamp,
        row[TOPIC_ID],
        row[VERSION],
    )


CHANGES_AT_ONCE = 8192


def replay_partitions(batches: Iterable[pa.RecordBatch], night: Night) -> Iterator[Output]:
    """(table name, rows) of every offsets partition among the replay rows."""
    rows = itertools.chain.from_iterable(map(rows_of, batches))
    for offsets_partition, of_one in itertools.groupby(rows, key=itemgetter(PARTITION)):
        yield from _ShardReplay(offsets_partition, night).run(of_one)


class _ShardReplay:
    def __init__(self, offsets_partition: int, night: Night) -> None:
        self._partition = offsets_partition
        self._night = night
        self._release = night.release
        self._shard = Shard(self._release, offsets_partition, recording=True)
        self._shard.topics = NoTopics()
        self._events = self._shard.record_events(night.event_rules(offsets_partition))
        self._replay = RowReplay(self._shard)
        self._failures: list[Row] = []
        self._markers: list[Row] = []

    def run(self, rows: Iterator[Row]) -> Iterator[Output]:
        """Replays the rows of the partition; yields versions at once, and all other rows at the end."""
        replay, pending = self._replay.replay, 0
        for row in rows:
            if row[KIND] == CORRECTION:
                self._shard.correct(row[LOG_OFFSET], row[OUTCOME], row[GROUP], row[TEXT])
                continue
            if pending >= CHANGES_AT_ONCE:
                # Not before a correction, which replaces the versions of the record before it.
                pending = 0
                yield from self._changes()
            try:
                ended = replay(row)
                if ended is not None:
                    self._marker(row, ended)
            except ReplayFailure as failure:
                self._failed(row, failure)
            pending += 1
        self._events.close()
        yield from self._changes()
        yield from self._current()

    def _marker(self, row: Row, ended: EndedTransaction) -> None:
        named = row[OUTCOME] is not None
        self._markers.append(
            (
                row[LOG_OFFSET],
                time_ms(row[TIMESTAMP]),
                None if row[PRODUCER] < 0 else row[PRODUCER],
                None if row[EPOCH] < 0 else row[EPOCH],
                row[COORDINATOR_EPOCH],
                row[CONTROL_TYPE],
                row[OUTCOME],
                ended.transaction_start_offset,
                ended.offset_count if named else None,
                ended.group_ids if named else None,
            )
        )

    def _failed(self, row: Row, failure: ReplayFailure) -> None:
        record_type = row[TYPE]
        self._failures.append(
            (
                row[LOG_OFFSET],
                time_ms(row[TIMESTAMP]),
                record_type,
                None if record_type is None else CONSUMER_OFFSETS[record_type].name,
                row[GROUP],
                row[TOPIC],
                row[TOPIC_PARTITION],
                row[VERSION],
                None if row[PRODUCER] is None or row[PRODUCER] < 0 else row[PRODUCER],
                "load_would_fail",
                str(failure),
            )
        )

    def _changes(self) -> Iterator[Output]:
        changes = self._shard.take_changes()
        for name, kind in shard_rows.VERSIONS.items():
            rows = [c for c in changes if isinstance(c, kind)]
            if rows:
                yield name, table_batch(name, kind._fields, rows, audit_id=self._night.audit_id)
        constants = {"audit_id": self._night.audit_id, "offsets_partition": self._partition}
        for batch in event_batches(self._events.take(), **constants):
            yield "group_events", batch

    def _current(self) -> Iterator[Output]:
        shard, night = self._shard, self._night
        shard.topics = night.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, shard.group_rows(night.offsets_partitions)),
            ("group_members", shard_rows.MemberRow, shard.member_rows()),
            ("committed_offsets", CommittedRow, shard.committed_rows()),
            ("pending_offsets", PendingRow, shard.pending_rows()),
            ("open_transactions", OpenTransactionRow, shard.open_transaction_rows()),
        ):
            for some in in_lots(rows):
                yield name, table_batch(name, row_type._fields, some, audit_id=night.audit_id)
        constants = {"audit_id": night.audit_id, "offsets_partition": self._partition}
        shard.topics = NoTopics()  # the table `topics` has them
        nothing = dict.fromkeys({*CHECKPOINTS.names} - {*StateRow._fields, *constants})
        nothing |= {"log_offset": 0, "reason": NIGHT, "state_format": 0, "release_version": "", "rules_version": 0}
        for some in in_lots(shard.save()):
            yield "night", table_batch("checkpoints", StateRow._fields, some, **constants, **nothing)
        if self._markers:
            yield ("transaction_markers", table_batch("transaction_markers", None, self._markers, **constants))
        if self._failures:
            unknown = {"record_count": 0, "coordinator_fails": True, "file": None, "file_position": None}
            unknown |= {"is_transactional": None, "raw_key": None, "raw_value": None, "resolved_by": None}
            yield ("quarantine", table_batch("quarantine", _FAILURE_COLUMNS, self._failures, **constants, **unknown))


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
