"""LakeReaders over Arrow tables in memory, without a lake: one without Spark, and one in a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kgroups_spark.sql.by_duckdb import _with_dollars
from kgroups_spark.sql.reader import LakeReader, Rows, to_rows
from kgroups_spark.sql.views import KNOWN_HISTORY, needed_for
from kgroups_spark.tables.columns import Condition, expression_of
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import to_datetime
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.story import story as of_the_story
from tests.views.arrow_tables import InSpark, answer_of, in_duckdb

STORY_END = 1794811281650
STORY_RETENTION_MS = 604_800_000


class ArrowReader(LakeReader):
    """The tables that are given; the others are empty. One finished audit, number 1; `partitions`: of its row."""

    engine = "duckdb"
    location = "lake"

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        as_of: datetime,
        release_version: str = "4.3",
        partitions: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        audit = {
            "audit_id": 1,
            "status": "finished",
            "as_of": as_of,
            "release_version": release_version,
            "retention_ms": STORY_RETENTION_MS,
            "partitions": list(partitions),
        }
        self.tables = {**tables, "audits": table_rows("audits", audit)}
        self._views = in_duckdb(self.tables)
        self._knows_history = False

    @property
    def audit_id(self) -> int:
        return 1

    def table_rows(
        self, table: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        rows = self.tables.get(table, arrow_schema(table).empty_table())
        rows = rows.filter(expression_of(conditions)) if conditions else rows
        return rows if columns is None else rows.select(columns)

    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        if not self._knows_history and KNOWN_HISTORY in needed_for(query):
            self._knows_history = True
            self._views.register(KNOWN_HISTORY, answer_of(self._views, f"FROM {KNOWN_HISTORY}", {}))
        text, used = _with_dollars(query, parameters or {})
        return answer_of(self._views, text, used)

    def sql(self, query: str, **parameters: Any) -> Rows:
        return to_rows(self.arrow(query, parameters))


class SparkArrowReader(ArrowReader):
    """The same tables in a Spark session, which answers every query."""

    engine = "spark"

    def __init__(self, spark: SparkSession, same: ArrowReader) -> None:
        spark.conf.set("spark.sql.legacy.parameterSubstitution.constantsOnly", "true")  # as SparkReader does
        self.tables = same.tables
        self._views = InSpark(spark, same.tables)

    def rows(self, table_or_view: str) -> Rows:
        return self.sql(f"SELECT * FROM {table_or_view}")

    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        return self._views.sql(query, args=dict(parameters or {})).toArrow()

    def translated(self, query: str) -> str:
        from kgroups_spark.sql.spark_sql import spark_sql

        return spark_sql(query)


@cache
def story() -> ArrowReader:
    """The shipped segments, audited in one night."""
    return ArrowReader(of_the_story().tables(), to_datetime(STORY_END))
