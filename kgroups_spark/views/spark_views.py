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
    made_of = _made_of(spark)
    for name in names:
        _make(spark, tables, name)
        made_of[name] = tables
    return tables.audit_id


def make(spark: SparkSession, tables: LakeAsOfAudit, names: Iterable[str]) -> None:
    """Makes those of the names that the session does not have of these tables, in the order of their dependencies: the
    session may have none, or those of another lake."""
    made_of = _made_of(spark)
    for name in names:
        if made_of.get(name) is not tables:
            _make(spark, tables, name)
            made_of[name] = tables


# By session and name: the tables of which it was made last.
_MADE_OF: dict[int, WeakValueDictionary[str, LakeAsOfAudit]] = {}


def _made_of(spark: SparkSession) -> WeakValueDictionary[str, LakeAsOfAudit]:
    # A session in the JVM has several objects in Python.
    session: int = spark._jvm.System.identityHashCode(spark._jsparkSession)  # type: ignore[union-attr]
    return _MADE_OF.setdefault(session, WeakValueDictionary())


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
