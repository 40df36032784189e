"""The descriptions of tables, views and functions and of their columns, from their own comments."""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import FUNCTIONS, VIEWS, columns_of, definition
from kgroups_spark.views.dialects import comment_of, signature


class Description(NamedTuple):
    """Columns in their order with their comments; a scalar function has none. `arguments`: a function's, as SQL of
    DuckDB."""

    comment: str
    columns: dict[str, str]
    arguments: str | None = None


def described(name: str) -> Description:
    """The table, view or function of that name. Raises KeyError for any other name."""
    if name in FUNCTIONS:
        return Description(comment_of(definition(name)), {}, signature(definition(name)))
    columns = (
        {column: reported.comment for column, reported in columns_of(name).items()} if name in (*TABLES, *VIEWS) else {}
    )
    return Description(TABLES[name].comment if name not in VIEWS else definition(name).comment, columns)
