"""SQL over files of tables, for upkeep: by Spark, or by DuckDB if there is no Spark.

Queries are in DuckDB's dialect; a table is named STORED + its name there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.parts import Part, PartWriter
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.reduction import STORED
from kgroups_spark.replay.sinks import ROWS
from kgroups_spark.spark.tasks import line_batch
from kgroups_spark.tables.rows import as_table
from kgroups_spark.tables.schemas import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame

Files = Mapping[str, Sequence[TableFile]]

# The order of rows in rewritten files.
IN_ORDER_OF = ("group_id", "transactional_id", "offsets_partition", "topic", "partition", "hour", "log_offset")
ROWS_AT_ONCE = 65_536


def answer(lake: Lake, query: str, files: Files) -> list[tuple[Any, ...]]:
    """The rows of a query over these files of tables."""
    if not isinstance(lake.spark, Local):
        return list(map(tuple, _frame(lake, query, files).collect()))
    with _duckdb(lake, query, files) as connection:
        return connection.sql(query).fetchall()


def write_answer(writer: LakeWriter, name: str, query: str, files: Files, *, into: int, rows: int) -> list[Part]:
    """The rows of a query as parts of a table, sorted: about `into` parts of the same size. `rows`: their number."""
    order, part_writer = order_of(name), writer.part_writer(name)
    with reported_in_one_line(f"table {name}: a task could not write its part"):
        if not isinstance(writer.lake.spark, Local):
            return parts_of(writer.lake.runner, _sorted(_frame(writer.lake, query, files), order, into), part_writer)
        with _duckdb(writer.lake, query, files) as connection:
            columns = ", ".join(f'"{column}" NULLS FIRST' for column in order)
            batches = connection.sql(f"SELECT * FROM ({query}) ORDER BY {columns}").to_arrow_reader(ROWS_AT_ONCE)
            return list(_parts(batches, part_writer, rows // into))


def order_of(name: str) -> list[str]:
    return [column for column in IN_ORDER_OF if column in TABLES[name].columns.names] or ["audit_id"]


def _in(query: str) -> set[str]:
    """The tables in a query."""
    return {*re.findall(rf"\b{STORED}(\w+)", query)}


@contextmanager
def _duckdb(lake: Lake, query: str, files: Files) -> Iterator[DuckDBPyConnection]:
    import duckdb

    with TemporaryDirectory(prefix="kgroups-") as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false; SET memory_limit = '1GB'")
        connection.execute("SET temp_directory = $folder", {"folder": folder})
        for name in _in(query):
            connection.register(f"{STORED}{name}", lake.dataset(name, [file.path for file in files[name]]))
        yield connection


def _parts(batches: pa.RecordBatchReader, writer: PartWriter, rows: int) -> Iterator[Part]:
    """Parts of at least so many rows, one after the other; the last one may have fewer."""
    part = None
    for batch in batches:
        part = part or writer.open(batches.schema)
        part.write(as_table(batch))
        if part.records >= rows:
            yield part.close()
            part = None
    if part is not None:
        yield part.close()


# By Spark.


def _frame(lake: Lake, query: str, files: Files) -> DataFrame:
    from kgroups_spark.lake.by_spark import parquet_of
    from kgroups_spark.sql.spark_sql import spark_sql

    frames = {}
    for name in _in(query):
        paths = [f"{lake.table(name).path}/{unquote(file.path)}" for file in files[name]]
        frames[f"{STORED}{name}"] = parquet_of(lake.spark, TABLES[name].schema, paths)
    rows: DataFrame = lake.spark.sql(re.sub(rf"\b{STORED}\w+", r"{\g<0>}", spark_sql(query)), **frames)
    return rows


def _sorted(rows: DataFrame, columns: list[str], into: int) -> DataFrame:
    """The rows, sorted and cut into so many Spark partitions of about the same number of rows."""
    placed = rows.coalesce(1) if into == 1 else rows.repartitionByRange(into, *columns)
    return placed.sortWithinPartitions(*columns)


def parts_of(runner: Any, rows: DataFrame, writer: PartWriter) -> list[Part]:
    """The rows of a frame as parts: each task writes one, batch by batch, and none if it has no rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = writer.write_batches(batches)
        yield line_batch([] if part is None else [(ROWS, asdict(part))])

    return [Part(**reported) for _, reported in runner.lines(rows, task)]
