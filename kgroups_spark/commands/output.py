"""Rows on stdout as a table, as JSON lines or as CSV; everything else goes to stderr.

A row is a dict with the column names of the tables; times are datetimes with a zone, bytes are bytes. JSON and CSV have
all of a row's columns under those names, times as ISO 8601 in UTC with milliseconds, bytes as base64. A table is for
eyes: fewer columns, Kafka's headings, times without their milliseconds.
"""

import base64
import csv
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from kgroups_spark.commands.text_table import TextTable, printable
from kgroups_spark.times import format_time, format_time_for_people

FORMATS = ("table", "json", "csv")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of what a command prints: its contract name, and its heading on the screen (None: not shown there)."""

    name: str
    heading: str | None = None


def write_rows(rows: Iterable[Row], columns: Sequence[Column], form: str, out: TextIO | None = None) -> int:
    """The number of rows, after writing them to `out` (default: stdout) in one of FORMATS."""
    out = out or sys.stdout
    writer = {"table": _write_table, "json": _write_json_lines, "csv": _write_csv}[form]
    return writer(rows, columns, out)


def _write_json_lines(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  the count is the result
        out.write(json_line({column.name: row[column.name] for column in columns}))
    return count


def json_line(row: Row) -> str:
    """One object in one line, with its line end; what JSON has no type for as `plain_value` says."""
    return json.dumps({name: plain_value(value) for name, value in row.items()}, ensure_ascii=False) + "\n"


def _write_csv(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007
        writer.writerow([_csv_cell(plain_value(row[column.name])) for column in columns])
    return count


def _csv_cell(value: Any) -> Any:
    """Null is an empty cell; lists and objects are JSON text."""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return value


def plain_value(value: Any) -> Any:
    """What JSON can hold: times as ISO 8601, bytes as base64, also inside lists and objects."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    return value


def _write_table(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    shown = [column for column in columns if column.heading is not None]
    table = TextTable([column.heading or "" for column in shown])
    for row in rows:
        table.add([table_cell(row[column.name]) for column in shown])
    for line in table.lines(screen_width(out)):
        out.write(line + "\n")
    return len(table.rows)


def table_cell(value: Any) -> str | int:
    """What stands in a table: `-` for null as in Kafka's tools, a list's values with commas between them."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        return format_time_for_people(value)
    if isinstance(value, list | tuple):
        return ",".join(str(table_cell(inner)) for inner in value) or "-"
    return str(value)


def screen_width(out: TextIO) -> int | None:
    """Columns of the terminal behind `out`; None: it is a file or a pipe, where nothing is cut."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def say(text: str) -> None:
    """A line for a person: on stderr, so that stdout has rows only."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_lines(lines: Iterable[str]) -> None:
    """Lines for a person, with names in them as a log has them: control characters are spelled out."""
    for line in lines:
        say(printable(line))
