"""A lake read by Spark: a lake in a catalog, or any lake with --engine spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.lake.lake import Lake
from kgroups_spark.nearest import did_you_mean
from kgroups_spark.reading.reader import ROWS_AT_ONCE, LakeReader, SqlError
from kgroups_spark.reading.spark_queries import SparkQueries
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.views.needed import NAMES, with_what_they_need
from kgroups_spark.views.spark_views import make


class SparkReader(LakeReader):
    """A reader that uses Spark. It registers the views that a query needs in its session."""

    engine = "spark"

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        self.location = lake.location
        # PySpark prints every refused query with the JVM's stack, in addition to its exception.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._queries = SparkQueries(spark)

    @property
    def audit_id(self) -> int:
        return self._tables.audit_id

    def table_rows(
        self, table: str, columns: Sequence[str] | None = None, conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        # Without a Spark job if pyarrow reaches the lake: a job takes a second, however small the table.
        with reported_in_one_line(f"table {table} of the lake at {self.location} cannot be read"):
            return self._tables.rows(table, columns, conditions)

    def arrow(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        with _refusals(), self._queries.settings():
            return self._frame(query, parameters).toArrow()

    def batches(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        with _refusals():
            with self._queries.settings():
                # As bytes, one partition of the answer at a time: Spark itself returns either Python rows, or all of
                # the answer as Arrow at once.
                answer = self._frame(query, parameters)
                yield pa.RecordBatch.from_pylist([], to_arrow_schema(answer.schema, timezone="UTC"))
                frame = answer.mapInArrow(_in_bytes, "batches binary")
            for row in frame.toLocalIterator():
                with pa.ipc.open_stream(row["batches"]) as stream:
                    yield from stream

    def translated(self, query: str) -> str:
        from kgroups_spark.views.spark_sql import spark_sql

        return spark_sql(query)

    def frame(self, query: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """A query's answer, not computed yet; otherwise as `arrow`."""
        with _refusals(), self._queries.settings():
            return self._frame(query, parameters)

    def _frame(self, query: str, parameters: Mapping[str, Any] | None) -> DataFrame:
        make(self.spark, self._tables, with_what_they_need(self._queries.names(query)))
        return self._queries.frame(query, parameters or {})

    @cached_property
    def _tables(self) -> LakeAsOfAudit:
        return LakeAsOfAudit.last_finished(self.lake)


@contextmanager
def _refusals() -> Iterator[None]:
    """Within the block, turns Spark's errors into SqlError."""
    try:
        yield
    except PySparkException as error:
        raise SqlError(*_reported(error).split("\n"), is_of_name=_is_of_name(error)) from error
    except Py4JJavaError as error:
        # A file that cannot be read, or an internal error of Spark, as for a WITH inside a function's argument.
        raise SqlError(f"Spark failed: {_raised_in(error)}") from error


def _raised_in(error: Py4JJavaError) -> str:
    """The exception's first line. One without a message of its own has the exception of Spark's thread as its cause."""
    raised = error.java_exception
    while raised.getCause() is not None and str(raised.getMessage()).startswith("Exception thrown in awaitResult"):
        raised = raised.getCause()
    return str(raised.toString()).splitlines()[0]


def _in_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as the bytes of an Arrow stream."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch.slice(start, ROWS_AT_ONCE))
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batches"])


def _reported(error: PySparkException) -> str:
    """Spark's message for people, without the plan after it; only our text for an error that our function raised."""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() == "USER_RAISED_EXCEPTION":  # raised by a function of ours
        return str(parameters.get("errorMessage"))
    lines = str(error).partition("\n\nJVM stacktrace")[0].partition(";\n'")[0].strip().splitlines()
    name = parameters.get("relationName", "").strip("`") if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND" else ""
    return f"{lines[0]}{did_you_mean(name, NAMES)}" if name else "\n".join(lines)


def _is_of_name(error: PySparkException) -> bool:
    """Whether a table, a function or a column is unknown."""
    return (error.getCondition() or "").startswith(
        ("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE", "UNRESOLVED_COLUMN")
    )
