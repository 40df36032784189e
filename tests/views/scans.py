"""The scans of a query's plan, in both engines: which columns they read, and by which filters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import duckdb
from pyspark.sql import DataFrame


def scans_of_spark(asked: DataFrame) -> list[tuple[str, str]]:
    """The table of each scan, and the filters that choose its files and row groups."""
    asked.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    found: list[tuple[str, str]] = re.findall(
        r"FileScan parquet.*?/(\w+)\.parquet\].*?PushedFilters: \[(.*?)\], ReadSchema", plan
    )
    assert plan.count("FileScan") == len(found) > 0
    return found


def scans_of_duckdb(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[set[str], str]]:
    """The columns that each scan reads, and its filters."""
    [(_, text)] = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
    waiting = list(json.loads(text))
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
        if "ARROW_SCAN" in node["name"]:
            columns, filters = node["extra_info"]["Projections"], node["extra_info"].get("Filters", "")
            yield (
                {columns} if isinstance(columns, str) else set(columns),
                " AND ".join([filters] * isinstance(filters, str) or filters),
            )
