"""What each table, view and function is, and its columns: as they say themselves."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kgroups_spark.tables.columns import comment_of
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import VIEWS, view_sql
from kgroups_spark.views.functions import FUNCTIONS

_TEXT = r"'((?:[^']|'')*)'"
_VIEW = re.compile(rf"COMMENT ON VIEW \w+ IS {_TEXT}")
_COLUMN = re.compile(rf'COMMENT ON COLUMN \w+\."?(\w+)"? IS {_TEXT}')
_FUNCTION = re.compile(rf"COMMENT ON MACRO (?:TABLE )?\w+ IS {_TEXT}")
_ARGUMENTS = re.compile(r"CREATE OR REPLACE MACRO\s+\w+\s*\((.*?)\)\s+AS", re.DOTALL)


class Description(NamedTuple):
    """Columns in their order with what they say; of a function none. `arguments`: of a function, as SQL."""

    comment: str
    columns: dict[str, str]
    arguments: str | None = None


@cache
def described(name: str) -> Description:
    """The table, view or function of that name. Raises KeyError."""
    if name in TABLES:
        table = TABLES[name]
        return Description(table.comment, {column.name: comment_of(column) for column in table.columns})
    if name in VIEWS:
        text = view_sql(name, "duckdb")
        columns = {column: _unquoted(comment) for column, comment in _COLUMN.findall(text)}
        return Description(_unquoted(_VIEW.findall(text)[0]), columns)
    if name in FUNCTIONS:
        text = view_sql(name, "duckdb")
        found = _ARGUMENTS.search(text)
        # DuckDB's `ts := NULL` is a default.
        arguments = " ".join(found[1].split()) if found else ""
        return Description(_unquoted(_FUNCTION.findall(text)[0]), {}, arguments)
    raise KeyError(name)


def _unquoted(text: str) -> str:
    return text.replace("''", "'")
