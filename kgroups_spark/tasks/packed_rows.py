"""Rows of several tables in one DataFrame, for Spark's writer: one row for each batch, with the batch as Arrow IPC
bytes.

A struct column for each table would be simpler. But then Spark generates code for every column of every table, in each
task and for each written table, which costs a small night more than all its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from kgroups_spark.replay.history_parts import by_shard
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tasks.outputs import (
    FACT,
    LOST,
    ROWS,
    Fact,
    ShardBegins,
    ShardLost,
    TaskOutput,
    kind_of,
    plain_batches,
)

# `offsets_partition`: of the first row; of all rows if they go to shards. `shard`: as in ShardBegins.
PACKED = StructType(
    [
        StructField("kind", StringType(), False),
        StructField("shard", StringType()),
        StructField("fact", StringType()),
        StructField("packed_table", StringType()),
        StructField("row_count", LongType()),
        StructField("offsets_partition", IntegerType()),
        StructField("packed_rows", BinaryType()),
    ]
)
_ARROW_TYPES = (pa.string(), pa.string(), pa.string(), pa.string(), pa.int64(), pa.int32(), pa.binary())
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def packed_outputs(outputs: Iterable[TaskOutput]) -> Iterator[pa.RecordBatch]:
    """Outputs of a task as PACKED."""
    shard = None
    for output in outputs:
        if isinstance(output, ShardBegins):
            shard = output.shard
        elif isinstance(output, ShardLost):
            yield _row(LOST, shard)
            shard = None
        elif isinstance(output, Fact):
            yield _row(FACT, shard, json.dumps(output.reported, sort_keys=True))
        else:
            kind, name, rows = kind_of(output)
            for batch in plain_batches(name, rows):
                yield _row(kind, shard, None, *_packed(name, batch))


def _packed(name: str, rows: pa.RecordBatch, column: str = "offsets_partition") -> tuple[Any, ...]:
    number = rows.column(column)[0].as_py() if column in rows.schema.names else None
    return name, rows.num_rows, number, packed_bytes(rows)


def packed_bytes(rows: pa.RecordBatch) -> bytes:
    """The batch as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as writer:
        writer.write_batch(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _row(*values: Any) -> pa.RecordBatch:
    """One row of PACKED; columns after the last value are null."""
    whole = (*values, *[None] * (len(_ARROW_TYPES) - len(values)))
    arrays = [pa.array([value], kind) for value, kind in zip(whole, _ARROW_TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=PACKED.names)


def packed_by_shard(frame: DataFrame, name: str, wanted: pa.Schema, shard: str = "offsets_partition") -> DataFrame:
    """These columns of a frame as PACKED, with the rows of one shard in each row. `shard`: the column that becomes
    `offsets_partition`."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in by_shard(pa.Table.from_batches([batch]).cast(wanted), shard).values():
                for run in rows.combine_chunks().to_batches():
                    yield _row(ROWS, None, None, *_packed(name, run, shard))

    return frame.select(*wanted.names).mapInArrow(task, PACKED)


def unpacked(frame: DataFrame, name: str) -> DataFrame:
    """The unpacked rows for a table."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column(0):
                yield from pa.ipc.open_stream(rows.as_buffer())

    ours = frame.where((F.col("kind") == ROWS) & (F.col("packed_table") == name))
    return ours.select("packed_rows").mapInArrow(task, TABLES[name].schema)
