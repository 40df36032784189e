"""The tables, views and functions that a query needs: only these of some eighty are made before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import FUNCTIONS, VIEWS, definition

# In the order of creation.
NAMES = (*TABLES, *VIEWS, *FUNCTIONS)

_TEXT_OR_COMMENT = re.compile(r"'(?:[^'\\]|\\.|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
# Statements and tables that list the catalog need everything.
_WHAT_THERE_IS = re.compile(r"\b(show|information_schema|sqlite_master|duckdb_\w+|pragma_\w+|query_table)\b")


def needed_for(query: str) -> list[str]:
    """Names of tables, views and functions, in the order of creation: all that the query names, outside of texts and
    comments, and those that they need. A name with another meaning there only costs time.
    """
    text = _without_texts(query)
    if _WHAT_THERE_IS.search(text):
        return list(NAMES)
    return with_what_they_need(_named_in(text))


def with_what_they_need(names: Iterable[str]) -> list[str]:
    """The names and those that they need, in the order of creation."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= _stands_on(name)
    return [name for name in NAMES if name in found]


@cache
def _stands_on(name: str) -> frozenset[str]:
    if name in TABLES:
        return frozenset()
    defined = definition(name)
    defaults = [argument.default or "" for argument in (defined.arguments or {}).values()]
    return frozenset(_named_in(_without_texts(" ".join((defined.query, *defaults)))) - {name})


def _without_texts(query: str) -> str:
    return _TEXT_OR_COMMENT.sub(" ", query).lower()


def _named_in(text: str) -> set[str]:
    return set(re.findall(r"\w+", text)).intersection(NAMES)
