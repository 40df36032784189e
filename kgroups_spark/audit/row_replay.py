"""Replay rows -> calls of a shard: what each kind of row means, in one place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.replay_rows import (
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
from kgroups_spark.messages.group_records import JsonRecord
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
    RAW_VALUE,
    MEMBER,
    REGEX,
    TEXT,
    OUTCOME,
    COORDINATOR_EPOCH,
    CONTROL_TYPE,
) = range(len(REPLAY_ROWS))
# Behind them: the value of a commit, where those of a batch have been made together.
OF_COMMIT = len(REPLAY_ROWS)
_VALUE = (COMMITTED, LEADER_EPOCH, METADATA, COMMIT_TIME, EXPIRE_TIME, TOPIC_ID, VERSION)


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The batch's rows. Most columns of most batches are null throughout, and cost nothing."""
    columns = [
        itertools.repeat(None, batch.num_rows) if column.null_count == batch.num_rows else column.to_pylist()
        for column in batch.columns
    ]
    return zip(*columns, _values(batch), strict=True)


def _values(batch: pa.RecordBatch) -> Iterable[OffsetAndMetadata | None]:
    """The values of a batch that has commits and no records of types 2 to 23: made at once. For other rows any."""
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


class RowReplay:
    """Replays rows into a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def replay(self, row: Row) -> EndedTransaction | None:
        """The transaction that a marker ended; None for every other row. Raises ReplayFailure as the shard does."""
        shard, kind, offset, timestamp = self._shard, row[KIND], row[LOG_OFFSET], row[TIMESTAMP]
        if timestamp is not None and timestamp < 0:
            timestamp = None
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
