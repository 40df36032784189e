"""docs/tables.md: every table, view and function of a lake, from the schemas and the heads of the SQL files.

    python -m docs.tables_page        writes the page (make docs)

Needs DuckDB, which says of which types the columns are that a view computes; no Spark, no lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb

from kgroups_spark.sql.views import FUNCTIONS, RECORD_VIEWS, VIEWS, definition, view_sql
from kgroups_spark.tables.columns import comment_of, type_name
from kgroups_spark.tables.schemas import TABLES, Table, arrow_schema

PAGE = Path(__file__).with_name("tables.md")

_HEAD = """\
# Tables, views and functions

`make docs` writes this page from the schemas (`kgroups_spark/tables/`) and from the heads of the SQL files
(`kgroups_spark/sql/definitions/`). Change those, not this page. [sql.md](sql.md) shows how to query them.

Everything here but the internal tables is **contract**:

- Names are Kafka's, in snake_case. Kafka's "-1: none" is null. Uuids are in Kafka's text form.
- `offsets_partition` is the partition of `__consumer_offsets`, `log_offset` the offset of a record in it.
  `committed_offset` is the offset that a group committed.
- `..._timestamp` is a time from Kafka or its log, `..._at` a time of ours. Both are TIMESTAMP in UTC, exact to the
  millisecond. `..._ms` is a duration.
- `audit_id` names the audit that wrote the row.
- Keys are unique. A column is NOT NULL where it says so; else its comment says what null means.
- Join on `offsets_partition` and `group_id`: one group can be in two partitions after someone raised the number of
  partitions of `__consumer_offsets`.
"""

_KINDS = {
    "history": "History: each audit appends to it",
    "current": "Current state: each audit that read something new rewrites it",
    "ledger": "Ledger: each audit appends to it",
    "internal": "Internal: the form changes without notice",
}


def page() -> str:
    """The page's text."""
    views = [name for name in VIEWS if name not in RECORD_VIEWS]
    parts = [_HEAD, *_overview(views)]
    for kind, heading in _KINDS.items():
        if kind != "internal":
            parts += [f"## {heading}\n", *(_table(table) for table in TABLES.values() if table.kind == kind)]
    with _empty_lake() as lake:
        parts += ["## Views\n", *(_view(name, lake) for name in views)]
        parts += ["## Functions\n", *(_function(name) for name in FUNCTIONS)]
        parts += ["## Views of record types\n", _RECORDS, *(_view(name, lake) for name in RECORD_VIEWS)]
    return "\n".join(parts)


_RECORDS = """\
One view for each record type from 2 to 23. A row is a row of `group_records`, tombstones included. The columns are the
fields of key and value, named and nested as in Kafka's message files, in snake_case.
"""


def _overview(views: Iterable[str]) -> Iterator[str]:
    for kind, heading in _KINDS.items():
        tables = [table for table in TABLES.values() if table.kind == kind]
        yield f"**{heading}**\n"
        link = _link if kind != "internal" else _code
        yield _rows(
            ("table", "a row is", "key"), ((link(t.name), t.comment, ", ".join(map(_code, t.key))) for t in tables)
        )
    yield "**Views**\n"
    yield _rows(("view", "a row is"), ((_link(name), definition(name).comment) for name in views))
    yield "**Functions**\n"
    yield _rows(("function", "what it returns"), ((_link(name), definition(name).comment) for name in FUNCTIONS))


def _table(table: Table) -> str:
    columns = (
        (field.name, type_name(field.type) + ("" if field.nullable else " NOT NULL"), comment_of(field))
        for field in table.columns
    )
    return f"{_heading(table.name)}\n{table.comment}. Key: {', '.join(map(_code, table.key))}.\n\n{_columns(columns)}"


def _view(name: str, lake: duckdb.DuckDBPyConnection) -> str:
    types = {
        field.name: type_name(field.type) for field in lake.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table().schema
    }
    columns = ((column, types[column], reported.comment) for column, reported in definition(name).columns.items())
    return f"{_heading(name)}\n{definition(name).comment}.\n\n{_columns(columns)}"


def _function(name: str) -> str:
    function = definition(name)
    arguments = [
        f"- `{argument}` {each.type}{f' (default `{each.default}`)' if each.default else ''}: {each.comment}"
        for argument, each in (function.arguments or {}).items()
    ]
    returns = f"Returns {function.returns}." if function.returns else "Returns a table:"
    columns = _columns((column, reported.type or "", reported.comment) for column, reported in function.columns.items())
    return "\n".join(
        (
            _heading(name),
            f"{function.comment}.\n",
            *arguments,
            *([""] if arguments else []),
            f"{returns}\n",
            *([columns] if function.columns else []),
        )
    )


def _empty_lake() -> duckdb.DuckDBPyConnection:
    """All tables without rows, and all views."""
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    for name in TABLES:
        lake.register(name, arrow_schema(name).empty_table())
    for name in VIEWS:
        lake.execute(view_sql(name, "duckdb"))
    return lake


def _columns(columns: Iterable[tuple[str, str, str]]) -> str:
    return _rows(("column", "type", "what"), ((_code(name), _code(kind), what) for name, kind, what in columns))


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *((*map(_cell, row),) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _heading(name: str) -> str:
    return f"### {name}\n"


def _link(name: str) -> str:
    return f"[{name}](#{name})"


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page())
