"""A lake's tables as Arrow tables in memory, and the views over them."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kgroups_spark.sql.views import (
    FUNCTIONS,
    KNOWN_HISTORY,
    RECORD_VIEWS,
    VIEWS,
    comments_sql,
    needed_for,
    view_sql,
)
from kgroups_spark.tables.schemas import TABLES, arrow_schema

Rows = list[dict[str, Any]]
# Tables of a few rows: a second thread and the search for the best order of joins cost more than they save.
ONE_THREAD = {"threads": 1}
FOR_FEW_ROWS = {**ONE_THREAD, "disabled_optimizers": "join_order"}
# Those of record types are many, are on one table alone, and have tests of their own.
WITHOUT_RECORD_VIEWS = tuple(name for name in VIEWS if name not in RECORD_VIEWS)


def in_duckdb(tables: Mapping[str, pa.Table], *, alone: bool = False) -> duckdb.DuckDBPyConnection:
    """Every view and function over these tables; the others are empty. `alone`: in a database that no other test has,
    for tests that change its views or its settings."""
    connection = duckdb.connect(config=ONE_THREAD) if alone else _database().cursor()
    if alone:
        _make_views(connection)
    connection.execute("SET TimeZone = 'UTC'")
    # The tables are those of this connection alone: DuckDB registers them as temporary views, which hide empty ones.
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection


def with_known_history(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """The same, with the row of known_history as a constant, as readers have it: functions as of a moment read it each
    time."""
    connection = in_duckdb(tables)
    connection.register(KNOWN_HISTORY, answer_of(connection, f"FROM {KNOWN_HISTORY}"))
    return connection


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The empty tables, views and functions, which no test changes. Making them, each of which DuckDB binds, takes a
    hundred times as long as another connection to them."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "views.duckdb"
    with duckdb.connect(path, config=ONE_THREAD) as connection:
        _make_views(connection)
    return duckdb.connect(path, read_only=True, config=FOR_FEW_ROWS)


def comments(name: str) -> dict[str, str]:
    """The comments of a view's columns in DuckDB."""
    asked = f"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = '{name}'"
    return dict(_commented().sql(asked).fetchall())


@cache
def _commented() -> duckdb.DuckDBPyConnection:
    connection = in_duckdb({}, alone=True)
    connection.execute(comments_sql())
    return connection


def _make_views(connection: duckdb.DuckDBPyConnection) -> None:
    for name in TABLES:
        connection.register("no_rows", arrow_schema(name).empty_table())
        connection.execute(f"CREATE TABLE {name} AS FROM no_rows")
    connection.unregister("no_rows")
    for name in (*VIEWS, *FUNCTIONS):
        connection.execute(view_sql(name, "duckdb"))


class InSpark:
    """The same in a Spark session: what a query needs is made when it is asked, as readers do."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, pa.Table]) -> None:
        self.spark, self.tables = spark, tables
        self._made: set[str] = set()

    def sql(self, query: str, **options: Any) -> DataFrame:
        """`options`: those of SparkSession.sql."""
        for name in needed_for(query):
            if name not in self._made:
                self._make(name)
                self._made.add(name)
        return self.spark.sql(query, **options)

    def _make(self, name: str) -> None:
        if name in TABLES:
            self.table(name).createOrReplaceTempView(name)
        else:
            self.spark.sql(self.view_sql(name))

    def table(self, name: str) -> DataFrame:
        rows = self.tables.get(name, arrow_schema(name).empty_table())
        return self.spark.createDataFrame(rows.combine_chunks(), TABLES[name].schema)

    def view_sql(self, name: str) -> str:
        return view_sql(name, "spark")


def answer_of(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None = None
) -> pa.Table:
    """The answer to a query, which is bound once; `connection.sql` binds it to describe the answer, and then again."""
    with warnings.catch_warnings(action="ignore"):  # the answer is copied once more: it has few rows
        return connection.execute(query, dict(parameters or {})).to_arrow_table()


def rows_of(view: duckdb.DuckDBPyConnection | InSpark | SparkSession, query: str) -> Rows:
    """The rows of a query, in an order of their own."""
    table = answer_of(view, query) if isinstance(view, duckdb.DuckDBPyConnection) else view.sql(query).toArrow()
    rows: Rows = table.to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=repr)


# The shape of a view: names and types of its columns.


def shape(data_type: Any) -> Any:
    """A type by the names and types of what is in it, without what engines call elements of lists."""
    if isinstance(data_type, pa.Schema) or pa.types.is_struct(data_type):
        return [(field.name, shape(field.type)) for field in data_type]
    if pa.types.is_map(data_type):
        return [shape(data_type.key_type), shape(data_type.item_type)]
    return [shape(data_type.value_type)] if pa.types.is_list(data_type) else str(data_type).replace("[us, tz=UTC]", "")
