"""The tables, views and functions of a lake in a Spark session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import known_history, view_sql
from kgroups_spark.views.needed import NAMES, with_what_they_need


def register_views(spark: SparkSession, lake: Lake, names: Iterable[str] = NAMES) -> int:
    """Makes or replaces every table, view and function in the session. Returns the audit that they reflect; 0: none has
    finished, and all are empty. They reflect it until they are registered again.

    `names`: only these, in the order of their dependencies (needed.py).
    """
    tables = LakeAsOfAudit.last_finished(lake)
    made = _made(spark)
    for name in names:
        _make(spark, tables, name)
        made.remember(name, tables)
    return tables.audit_id


def make(spark: SparkSession, tables: LakeAsOfAudit, names: Iterable[str]) -> None:
    """Makes those of the names that the session does not have of these tables, in the order of their dependencies: the
    session may have none, those of another lake, or a view of the user with that name."""
    made = _made(spark)
    for name in names:
        if not made.has(name, tables):
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
    elif name == known_history.NAME:
        make(spark, tables, with_what_they_need(known_history.READ))
        spark.sql(_known_history(spark, tables).view_sql("spark"))
    else:
        spark.sql(view_sql(name, "spark", tables.audit_id))


def _known_history(spark: SparkSession, tables: LakeAsOfAudit) -> known_history.KnownRow:
    def row(query: str, **parameters: int) -> dict[str, Any]:
        return dict(spark.sql(known_history.inlined(query, parameters)).toArrow().to_pylist()[0])

    begins = known_history.begins(row)
    return known_history.KnownRow.of(tables.audit_id, row, tables.rows, begins)
