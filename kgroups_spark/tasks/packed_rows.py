"""Rows of several tables in one DataFrame, for Spark's writer: a row per batch, with the batch as Arrow's IPC bytes.

A struct column per table would be plainer. But Spark generates code for every column of every table then, in each task
and for each table that is written, which costs a small night more than all it has to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from kgroups_spark.replay.history_parts import by_shard
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.tasks.outputs import Rows, plain_batches

PACKED = StructType(
    [
        StructField("packed_table", StringType(), False),
        StructField("row_count", LongType(), False),
        StructField("packed_rows", BinaryType(), False),
    ]
)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def packed_outputs(outputs: Iterable[tuple[str, Rows]]) -> Iterator[pa.RecordBatch]:
    """Rows of tables as PACKED."""
    for name, rows in outputs:
        for batch in plain_batches(name, rows):
            yield packed(name, batch)


def packed(name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """One row of PACKED."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as writer:
        writer.write_batch(rows)
    columns = [[name], [rows.num_rows], [sink.getvalue().to_pybytes()]]
    types = (pa.string(), pa.int64(), pa.binary())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=PACKED.names)


# Packed rows of one offsets partition each; `is_again`: of records that were read before.
PACKED_BY_SHARD = StructType(
    [
        StructField("offsets_partition", IntegerType(), False),
        StructField("is_again", BooleanType(), False),
        *PACKED.fields,
    ]
)


def packed_of_shard(offsets_partition: int, packed_rows: pa.RecordBatch, *, is_again: bool = False) -> pa.RecordBatch:
    """A row of PACKED as one of PACKED_BY_SHARD."""
    place = [pa.array([offsets_partition], pa.int32()), pa.array([is_again])]
    return pa.RecordBatch.from_arrays([*place, *packed_rows.columns], names=PACKED_BY_SHARD.names)


def packed_by_shard(
    frame: DataFrame, name: str, schema: pa.Schema | None = None, shard: str = "offsets_partition"
) -> DataFrame:
    """The rows of a frame as PACKED_BY_SHARD; `schema`: the columns that are wanted, all of the table's by default.
    `shard`: the column that stands as `offsets_partition` there."""
    wanted = arrow_schema(name) if schema is None else schema

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, rows in by_shard(pa.Table.from_batches([batch]).cast(wanted), shard).items():
                for run in rows.combine_chunks().to_batches():
                    yield packed_of_shard(number, packed(name, run))

    return frame.select(*wanted.names).mapInArrow(task, PACKED_BY_SHARD)


def unpacked(frame: DataFrame, name: str, schema: StructType | None = None) -> DataFrame:
    """The rows of one table; `schema` is that of what is no table of the lake."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in batch.column(0):
                yield from pa.ipc.open_stream(rows.as_buffer())

    packed_rows = frame.where(F.col("packed_table") == name).select("packed_rows")
    return packed_rows.mapInArrow(task, TABLES[name].schema if schema is None else schema)


def row_counts(frame: DataFrame, names: Sequence[str]) -> dict[str, int]:
    """How many rows there are of each of the tables."""
    found = frame.groupBy("packed_table").agg(F.sum("row_count").alias("row_count")).collect()
    counts = {row.packed_table: int(row.row_count) for row in found}
    return {name: counts.get(name, 0) for name in names}
