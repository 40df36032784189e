"""Replay rows -> calls of a shard: what each kind of row means, in one place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.replay_rows import (
    FIRST_VALUE,
    MARKER,
    RECORD,
    REPLAY_ROWS,
    TOMBSTONE,
    UNREADABLE,
    VALUE,
)
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.transactions import EndedTransaction
from kgroups_spark.messages.group_records import DecodedRecord, GroupRecord, GroupRecordDecoder, JsonRecord
from kgroups_spark.messages.schema import reader

Row = tuple[Any, ...]

# Where the columns of REPLAY_ROWS stand in a row.
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
    GROUP,
    TOPIC,
    TOPIC_PARTITION,
    COMMITTED,
    LEADER_EPOCH,
    METADATA,
    COMMIT_TIME,
    EXPIRE_TIME,
    TOPIC_ID,
    RAW_KEY,
    RAW_VALUE,
    MEMBER,
    REGEX,
    TEXT,
    OUTCOME,
    COORDINATOR_EPOCH,
    CONTROL_TYPE,
    DEFERRED,
    TELLS_CLIMB,
) = range(len(REPLAY_ROWS))
# Behind them: the decoded record or value, where those of a batch have been decoded together.
DECODED = len(REPLAY_ROWS)
_VALUE = (COMMITTED, LEADER_EPOCH, METADATA, COMMIT_TIME, EXPIRE_TIME, TOPIC_ID, VERSION)


def rows_of(batch: pa.RecordBatch, decoded: Sequence[DecodedRecord | None] | None = None) -> Iterator[Row]:
    """The batch's rows. Most columns of most batches are null throughout, and cost nothing."""
    columns = [
        itertools.repeat(None, batch.num_rows) if column.null_count == batch.num_rows else column.to_pylist()
        for column in batch.columns
    ]
    return zip(*columns, _values(batch) if decoded is None else decoded, strict=True)


def _values(batch: pa.RecordBatch) -> Iterable[OffsetAndMetadata | None]:
    """The values of a batch that has commits and no records of types 2 to 23: made at once. Of other rows any."""
    kinds = set(batch.column(KIND).unique().to_pylist())
    if VALUE not in kinds or RECORD in kinds or batch.column(RAW_VALUE).null_count < batch.num_rows:
        return itertools.repeat(None, batch.num_rows)
    fields = zip(*(_or_null(batch, at).to_pylist() for at in _VALUE), strict=True)
    return map(partial(tuple.__new__, OffsetAndMetadata), fields)  # all in C


def _or_null(batch: pa.RecordBatch, at: int) -> pa.Array:
    """A column, with null for -1 where that means none."""
    column = batch.column(at)
    if at not in (LEADER_EPOCH, EXPIRE_TIME):
        return column
    return pc.if_else(pc.equal(column, -1), pa.scalar(None, column.type), column)


def rows_in_log_order(
    batches: Iterable[pa.RecordBatch], rows_of: Callable[[pa.RecordBatch], Iterator[Row]] = rows_of
) -> Iterator[Row]:
    """One range's rows. Its records of types 2 to 23 and all others stand in batches of their own, each in log order.

    `rows_of` gives a batch's rows.
    """
    records: list[pa.RecordBatch] = []
    others: list[pa.RecordBatch] = []
    for batch in batches:
        is_of_records = batch.num_rows and batch.column(KIND)[0].as_py() in (RECORD, UNREADABLE)
        (records if is_of_records else others).append(batch)
    return _merged(*(itertools.chain.from_iterable(map(rows_of, part)) for part in (records, others)))


def _merged(records: Iterator[Row], others: Iterator[Row]) -> Iterator[Row]:
    """Rows of both in log order."""
    record = next(records, None)
    for other in others:
        while record is not None and record[LOG_OFFSET] < other[LOG_OFFSET]:
            yield record
            record = next(records, None)
        yield other
    if record is not None:
        yield record
        yield from records


class RowReplay:
    """Replays rows into a shard."""

    def __init__(self, shard: Shard, decoder: GroupRecordDecoder) -> None:
        self._shard = shard
        self._decoder = decoder

    def replay(self, row: Row) -> EndedTransaction | None:
        """What a marker ended; None for every other row. Raises ReplayFailure as the shard does."""
        shard, kind, offset, timestamp = self._shard, row[KIND], row[LOG_OFFSET], row[TIMESTAMP]
        if timestamp is not None and timestamp < 0:
            timestamp = None
        if kind in (VALUE, TOMBSTONE):
            value = None if kind == TOMBSTONE else row[DECODED] or _offset_and_metadata(row)
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
                tells_climb=row[TELLS_CLIMB] is not False,
            )
        elif kind == RECORD:
            self._replay_record(row)
        elif kind == UNREADABLE:
            shard.transactional_record(offset, timestamp, row[PRODUCER])
        elif kind == MARKER:
            return shard.end_transaction(offset, timestamp, row[PRODUCER], row[OUTCOME])
        else:
            assert kind == FIRST_VALUE, kind
            shard.keep_group(offset, timestamp, row[GROUP])
        return None

    def record(self, row: Row) -> DecodedRecord:
        """The record of types 2 to 23 that a row of kind RECORD holds."""
        if row[DECODED] is not None:
            found: DecodedRecord = row[DECODED]
            return found
        if row[RAW_KEY] is None:
            return JsonRecord(row[TYPE], row[GROUP], row[MEMBER], row[REGEX], row[VERSION], row[TEXT])
        record = self._decoder.decode(row[RAW_KEY], row[RAW_VALUE])
        assert isinstance(record, GroupRecord), record
        return record

    def _replay_record(self, row: Row) -> None:
        record = self.record(row)
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
    """A log time; None where there is none."""
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
