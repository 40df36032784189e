"""A lake read by Spark: a lake in a catalog, or any lake with --engine spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgroups_spark.errors import reported_in_one_line
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.sql.reader import NO_QUERY, ROWS_AT_ONCE, LakeReader, SqlError
from kgroups_spark.sql.views import KNOWN_HISTORY, NAMES, known_history_sql, needed_for, view_sql
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import did_you_mean

# Settings while a query is checked and runs: a path is not a table, and ${env:HOME} in a text stays text.
SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    # Spark 4.2 binds parameters while it parses, and Delta's parser (4.4) does not pass their values on, so Spark
    # reports all of them as unbound. With this setting they are bound after the parser, as in earlier releases.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # In the SQL of our views and functions a TIMESTAMP has a zone. A view keeps the settings with which it was made.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
# Statements, all commands to Spark, that only show something.
SHOWING = {"ShowTables", "ShowViews", "ShowColumns", "ShowFunctions", "DescribeRelation", "DescribeColumn"}
SHOWING |= {"DescribeFunction", "ExplainCommand", "DescribeQueryCommand"}
COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"

UNKNOWN_NAMES = ("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE", "UNRESOLVED_COLUMN")


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Within the block, the session has SETTINGS, for checking and running a text; then the old values return."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def _require_query(spark: SparkSession, text: str) -> None:
    """Raises SqlError unless the text is a query."""
    jvm: Any = spark._jvm
    for node in _with_inner(spark._jsparkSession.sessionState().sqlParser().parsePlan(text)):
        kind = node.getClass().getSimpleName()
        is_command = jvm.py4j.reflection.TypeUtil.isInstanceOf(COMMAND, node) or kind.startswith("Insert")
        if is_command and kind not in SHOWING:
            raise SqlError(f"{NO_QUERY} ({kind} is refused)")


def _with_inner(plan: Any) -> Iterator[Any]:
    """A parsed plan and the plans in it."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _with_inner(children.apply(index))


def register_views(spark: SparkSession, lake: Lake, names: Iterable[str] = NAMES) -> int:
    """Makes or replaces tables, views and functions (`names`: only these, in the order of sql/views.py) in the session.
    They reflect the audit that is returned (0: none, all are empty) until they are registered again."""
    tables = LakeAsOfAudit.last_finished(lake)
    make(spark, tables, names, again=True)
    return tables.audit_id


def make(spark: SparkSession, tables: LakeAsOfAudit, names: Iterable[str], *, again: bool = False) -> None:
    """Makes those of the names that the session does not have of these tables (`again`: all of them), in the order of
    their dependencies: the session may have none, those of another lake, or a view of the user with that name."""
    made = _made(spark)
    for name in names:
        if again or not made.has(name, tables):
            _make(spark, tables, name)
            made.remember(name, tables)


class _Made:
    """The names that were made in one session. The user may replace or drop a view at any time."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[str, LakeAsOfAudit] = WeakValueDictionary()
        self._views: dict[str, int] = {}

    def remember(self, name: str, tables: LakeAsOfAudit) -> None:
        self._of[name], self._views[name] = tables, _view(tables.lake.spark, name)

    def has(self, name: str, tables: LakeAsOfAudit) -> bool:
        """Whether the name was last made of these tables, and is still that view."""
        return self._of.get(name) is tables and self._views[name] == _view(tables.lake.spark, name)


_MADE: dict[int, _Made] = {}


def _made(spark: SparkSession) -> _Made:
    # A session in the JVM has several objects in Python.
    session: int = spark._jvm.System.identityHashCode(spark._jsparkSession)  # type: ignore[union-attr]
    return _MADE.setdefault(session, _Made())


def _view(spark: SparkSession, name: str) -> int:
    """The identity of the session's temporary view of that name; 0: there is none, as for a function."""
    jvm: Any = spark._jvm
    found = spark._jsparkSession.sessionState().catalog().getRawTempView(name)
    return int(jvm.System.identityHashCode(found.get())) if found.isDefined() else 0


def _make(spark: SparkSession, tables: LakeAsOfAudit, name: str) -> None:
    """Makes a table, view or function, if everything that it needs exists."""
    if name in TABLES:
        tables.read(name).createOrReplaceTempView(name)
        return
    spark.sql(view_sql(name, "spark", tables.audit_id))
    if name == KNOWN_HISTORY:
        [row] = spark.table(name).toArrow().to_pylist()
        spark.sql(known_history_sql(row, "spark"))


class SparkReader(LakeReader):
    """A reader that uses Spark. It registers the views that a query needs in its session."""

    engine = "spark"

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        self.location = lake.location
        # PySpark prints every refused query with the JVM's stack, in addition to its exception.
        logging.getLogger("SQLQueryContextLogger").disabled = True

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
        with _refusals(), _settings(self.spark):
            return self._frame(query, parameters).toArrow()

    def batches(self, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.RecordBatch]:
        with _refusals():
            with _settings(self.spark):
                # As bytes, one partition of the answer at a time: Spark itself returns either Python rows, or all of
                # the answer as Arrow at once.
                frame = self._frame(query, parameters).mapInArrow(_in_bytes, "batches binary")
            for row in frame.toLocalIterator():
                with pa.ipc.open_stream(row["batches"]) as stream:
                    yield from stream

    def translated(self, query: str) -> str:
        from kgroups_spark.sql.spark_sql import spark_sql

        return spark_sql(query)

    def frame(self, query: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """A query's answer, not computed yet; otherwise as `arrow`."""
        with _refusals(), _settings(self.spark):
            return self._frame(query, parameters)

    def _frame(self, query: str, parameters: Mapping[str, Any] | None) -> DataFrame:
        _require_query(self.spark, query)
        make(self.spark, self._tables, needed_for(query))
        # Spark finds no type for the elements of an empty list.
        given = {name: F.array() if value == [] else value for name, value in (parameters or {}).items()}
        return self.spark.sql(query, args=given)

    @cached_property
    def _tables(self) -> LakeAsOfAudit:
        return LakeAsOfAudit.last_finished(self.lake)


@contextmanager
def _refusals() -> Iterator[None]:
    """Within the block, turns Spark's errors into SqlError."""
    try:
        yield
    except PySparkException as error:
        is_of_name = (error.getCondition() or "").startswith(UNKNOWN_NAMES)
        raise SqlError(*_reported(error).split("\n"), is_of_name=is_of_name) from error
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
