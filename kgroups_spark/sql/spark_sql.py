"""The views' SQL in Spark's dialect: sqlglot's translation of DuckDB's, with its gaps filled. Sessions of Spark alone
pay for it: 0.1 s to import sqlglot, then some ten milliseconds a view."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp

# Functions unknown to sqlglot, which have another name in Spark.
RENAMED = {"ERROR": "raise_error", "MAKE_TIMESTAMPTZ": "timestamp_micros"}
# Types in DuckDB's structure of a JSON text with another name in Spark.
TYPES = {"VARCHAR": "STRING", "INTEGER": "INT"}


@cache
def spark_sql(query: str) -> str:
    """The query for Spark. Raises sqlglot's ParseError if it is not SQL of DuckDB."""
    tree = sqlglot.parse_one(query, dialect="duckdb").transform(_for_spark)
    return tree.sql("spark", pretty=True, comments=False)


def _for_spark(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Table):
        # In DuckDB, functions name the schema, or a caller's WITH would hide the table. In Spark it cannot.
        node.set("db", None)
    elif isinstance(node, exp.CTE):
        node.set("materialized", None)
    elif isinstance(node, exp.UnixToTime):
        # sqlglot reads epoch_ms as the time of so many milliseconds. In the views it is the milliseconds of a time.
        return exp.func("unix_millis", node.this)
    elif isinstance(node, exp.FromJson):
        node.set("expression", exp.Literal.string(_type_of(json.loads(node.expression.name))))
    elif isinstance(node, exp.Bracket) and node.expressions[0].is_int:
        # Past a list's end there is nothing. Spark's own brackets raise there, even on rows that a filter leaves out.
        return exp.func("get", node.this.transform(_for_spark), *node.expressions)
    elif isinstance(node, exp.DataType) and node.is_type("INTERVAL"):
        return exp.DataType.build("INTERVAL DAY TO SECOND", dialect="spark")
    elif isinstance(node, exp.Anonymous):
        return _function(node)
    return node


def _function(node: exp.Anonymous) -> exp.Expr:
    name, arguments = node.name.upper(), [each.transform(_for_spark) for each in node.expressions]
    if name == "LIST_REDUCE":
        elements, merged, first = arguments
        return exp.func("aggregate", elements, first, merged)
    return exp.func(RENAMED[name], *arguments) if name in RENAMED else node


def _type_of(structure: Any) -> str:
    if isinstance(structure, dict):
        return f"STRUCT<{', '.join(f'`{key}`: {_type_of(value)}' for key, value in structure.items())}>"
    if isinstance(structure, list):
        return f"ARRAY<{_type_of(structure[0])}>"
    return TYPES.get(structure, str(structure))
