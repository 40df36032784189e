"""A lake's tables as Arrow tables in memory, and the views over them."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.views import FUNCTIONS, VIEWS, view_sql
from kgroups_spark.views.record_views import RECORD_VIEWS

Rows = list[dict[str, Any]]
# Tables of a few rows: a second thread costs more than it does.
ONE_THREAD = {"threads": 1}
# Those of record types are many, stand on one table alone, and have tests of their own.
WITHOUT_RECORD_VIEWS = tuple(name for name in VIEWS if name not in RECORD_VIEWS)


def in_duckdb(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """Every view and function over these tables; the others are empty."""
    with NamedTemporaryFile(suffix=".duckdb") as file:
        # DuckDB keeps it open.
        shutil.copyfile(_database(), file.name)
        connection = duckdb.connect(file.name, config=ONE_THREAD)
    connection.execute("SET TimeZone = 'UTC'")
    for name in TABLES:
        connection.register(name, tables.get(name, arrow_schema(name).empty_table()))
    return connection


@cache
def _database() -> Path:
    """A file with the views and functions. To make them, each of which DuckDB binds, takes ten times as long as to open
    a copy of it."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "views.duckdb"
    with duckdb.connect(path, config=ONE_THREAD) as connection:
        for name in TABLES:
            connection.register(name, arrow_schema(name).empty_table())
        for name in (*VIEWS, *FUNCTIONS):
            connection.execute(view_sql(name, "duckdb"))
    return path


def in_spark(
    spark: SparkSession, tables: Mapping[str, pa.Table], views: Sequence[str] = WITHOUT_RECORD_VIEWS
) -> SparkSession:
    """The same in a Spark session."""
    for name, table in TABLES.items():
        rows = tables.get(name, arrow_schema(name).empty_table())
        spark.createDataFrame(rows, table.schema).createOrReplaceTempView(name)
    for name in views:
        spark.sql(view_sql(name, "spark"))
    return spark


def rows_of(view: duckdb.DuckDBPyConnection | SparkSession, query: str) -> Rows:
    """The rows of a query, in an order of their own."""
    answer = view.sql(query)
    table = answer.to_arrow_table() if hasattr(answer, "to_arrow_table") else answer.toArrow()
    rows: Rows = table.to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=repr)
