"""Records of the data sources: their Spark schema, and Arrow batches of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.control import control_type, control_type_name
from kgroups_spark.records.slices import binary_slices
from kgroups_spark.tables.columns import BIGINT, BINARY, BOOLEAN, INT, SMALLINT, STRING, TIMESTAMP, column, required
from kgroups_spark.tables.spark_types import spark_schema

ROWS_PER_BATCH = 1 << 16
BYTES_PER_BATCH = 32 << 20
LARGEST_TIMESTAMP_MS = (2**63 - 1) // 1000


ARROW_RECORDS = pa.schema(
    [
        required("topic", STRING, "topic of the log"),
        required("partition", INT, "partition of the log"),
        required("offset", BIGINT, "offset of the record"),
        column("timestamp", TIMESTAMP, "of the record, to the millisecond; null: none (message format 0)"),
        column("timestamp_type", INT, "0: create time, 1: log append time; null: none (message format 0)"),
        column("leader_epoch", INT, "leader epoch of the batch; null: none (message formats 0 and 1)"),
        column("producer_id", BIGINT, "null: not from a transactional or idempotent producer"),
        column("producer_epoch", SMALLINT, "null: not from a transactional or idempotent producer"),
        required("is_transactional", BOOLEAN, "part of a transaction, committed or not"),
        column("control_type", STRING, "COMMIT, ABORT, or the number of another; null: not a control record"),
        column("key", BINARY, "null: no key"),
        column("value", BINARY, "null: tombstone"),
    ]
)
RECORDS = spark_schema(ARROW_RECORDS)


def record_batches(topic: str, partition: int, records: RecordColumns) -> Iterator[pa.RecordBatch]:
    """The records in order, as Arrow batches of the columns RECORDS. A batch exceeds the limits only if a single record
    does."""
    size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
    ends = np.cumsum(size)
    start = 0
    while start < len(records):
        full = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + BYTES_PER_BATCH, side="right"))
        stop = min(max(full, start + 1), start + ROWS_PER_BATCH)
        yield _record_batch(topic, partition, records.take(slice(start, stop)))
        start = stop


def _record_batch(topic: str, partition: int, records: RecordColumns) -> pa.RecordBatch:
    count = len(records)
    columns = [
        pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(records.offset),
        _timestamps(records.timestamp),
        _nullable(records.timestamp_type, pa.int32()),
        _nullable(records.leader_epoch, pa.int32()),
        _nullable(records.producer_id, pa.int64()),
        _nullable(records.producer_epoch, pa.int16()),
        pa.array(records.is_transactional),
        control_types(records),
        binary_slices(records.data, records.key_start, records.key_length),
        binary_slices(records.data, records.value_start, records.value_length),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_RECORDS)


def _timestamps(ms: NDArray[np.int64]) -> pa.Array:
    """Kafka's milliseconds as timestamps; null: none (-1), or beyond a microsecond timestamp (292,000 years)."""
    is_null = (ms == -1) | (ms > LARGEST_TIMESTAMP_MS) | (ms < -LARGEST_TIMESTAMP_MS)
    return pa.array(np.where(is_null, 0, ms) * 1000, pa.timestamp("us", "UTC"), mask=is_null)


def _nullable(numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Kafka's -1 as null."""
    return pa.array(numbers, mask=numbers == -1).cast(kind)


def control_types(records: RecordColumns) -> pa.Array:
    """COMMIT, ABORT, or another type's number as text (-1: its key has none); null unless it is a control record."""
    rows = np.flatnonzero(records.is_control)
    types: list[str | None] = [None] * len(records)
    for row in rows.tolist():
        number = control_type(records.key(row))
        types[row] = control_type_name(-1 if number is None else number)
    return pa.array(types, pa.string())
