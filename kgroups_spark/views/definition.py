"""The definition of a view or function: the head of its SQL file, and the query below it.

    -- The rows of the view.
    --
    -- argument ts TIMESTAMP: a function's argument, with its type; ts TIMESTAMP = NULL: one that may be left out
    -- returns INT
    -- offsets_partition, group_id of committed_offsets
    -- columns of group_versions but is_removed
    -- state: the meaning of this column
    -- known STRING: the meaning of this column

    SELECT ...

Columns are in their order; other columns of the query are left out. Columns of another table, view or function have the
type and the comment that they have there. One that is named again keeps its position and gets another comment. A
function that `returns` no type is a table function, each of whose columns has a type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple


class Column(NamedTuple):
    """A column, or a function's argument. `type`: Spark's name of it; None: the query's type. `default`: SQL
    for an argument that may be left out."""

    comment: str
    type: str | None = None
    default: str | None = None


Columns = Mapping[str, Column]


class Definition(NamedTuple):
    """A view, or a function of `arguments` (None: a view); with `returns` it is scalar. `query` is DuckDB's SQL."""

    comment: str
    columns: Columns
    query: str
    arguments: Columns | None = None
    returns: str | None = None


_OWN = re.compile(r"(argument )?(\w+)(?: ([A-Z][A-Z ]*?))?(?: = (.*?))?: (.*)")
_RETURNS = re.compile(r"returns (\w+)")
_ALL = re.compile(r"columns of (\w+)(?: but (.*))?")
_NAMED = re.compile(r"(.*) of (\w+)")


def parsed(text: str, columns_of: Callable[[str], Columns], *, is_function: bool) -> Definition:
    """The definition in a file. `columns_of`: the columns of another table, view or function.

    Raises ValueError for a line of the head in none of these forms, KeyError for an unknown column.
    """
    head, query = text.split("\n\n", 1)
    lines = [line.removeprefix("--").strip() for line in head.splitlines()]
    arguments: dict[str, Column] = {}
    columns: dict[str, Column] = {}
    returns = None
    for line in lines[2:]:
        if own := _OWN.fullmatch(line):
            argument, name, data_type, default, comment = own.groups()
            named = arguments if argument else columns
            inherited = named[name].type if name in named else None
            named[name] = Column(comment, data_type or inherited, default)
        elif found := _RETURNS.fullmatch(line):
            returns = found[1]
        else:
            columns.update(_inherited(line, columns_of))
    return Definition(lines[0], columns, query.strip(), arguments if is_function else None, returns)


def _inherited(line: str, columns_of: Callable[[str], Columns]) -> Iterator[tuple[str, Column]]:
    """Columns of another table, view or function."""
    if found := _ALL.fullmatch(line):
        columns, left_out = columns_of(found[1]), _names(found[2] or "")
        yield from ((name, column) for name, column in columns.items() if name not in left_out)
    elif found := _NAMED.fullmatch(line):
        columns = columns_of(found[2])
        yield from ((name, columns[name]) for name in _names(found[1]))
    else:
        raise ValueError(f"no line of a view's head has this form: {line}")


def _names(text: str) -> list[str]:
    return text.split(", ")
