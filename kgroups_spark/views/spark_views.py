"""The tables, views and functions of a lake in a Spark session."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from kgroups_spark.tables.as_of_audit import LakeAsOfAudit
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import view_sql
from kgroups_spark.views.needed import NAMES


def register_views(spark: SparkSession, lake: Lake, names: Iterable[str] = NAMES) -> int:
    """Makes or replaces a temporary view for every table and every view, and every function, and answers which audit
    they are as of (0: none has finished, all are empty). They stay as of it until they are registered again.

    `names`: these alone, in the order in which they stand on each other (needed.py).
    """
    tables = LakeAsOfAudit.last_finished(lake)
    for name in names:
        if name in TABLES:
            tables.read(name).createOrReplaceTempView(name)
        else:
            spark.sql(view_sql(name, "spark", tables.audit_id))
    return tables.audit_id
