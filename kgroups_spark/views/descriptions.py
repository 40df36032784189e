"""The descriptions of tables, views and functions and of their columns, from their own comments."""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import FUNCTIONS, VIEWS, columns_of, definition
from kgroups_spark.views.dialects import comment_of, signature


class Description(NamedTuple):
    """Columns in their order with their comments; none for a scalar function. `arguments`: a function's, as DuckDB's
    SQL."""

    comment: str
    columns: dict[str, str]
    arguments: str | None = None


def described(name: str) -> Description:
    """The table, view or function of that name. Raises KeyError."""
    if name in FUNCTIONS:
        return Description(comment_of(definition(name)), {}, signature(definition(name)))
    columns = (
        {column: reported.comment for column, reported in columns_of(name).items()} if name in (*TABLES, *VIEWS) else {}
    )
    return Description(TABLES[name].comment if name not in VIEWS else definition(name).comment, columns)
