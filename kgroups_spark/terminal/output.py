"""Rows on stdout as a table, as JSON lines or as CSV; everything else goes to stderr.

A row is a dict with the column names of the tables. Times are datetimes with a zone, bytes are bytes. JSON and CSV have
all columns of a row under those names, times as ISO 8601 in UTC with milliseconds, bytes as base64. A table is for
people: it has fewer columns, Kafka's headings, and times without milliseconds.

All output goes through this module. No control characters reach a terminal, because names come from a log. JSON has
such characters as `\\u009b`, which is equivalent. CSV for a file or a pipe has every text unchanged, so that it can be
read back. That includes texts that begin with `=`, `+`, `-` or `@`, which a spreadsheet may take for a formula: a
prefix would change names and negative numbers for every other reader.
"""

import base64
import csv
import io
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

import orjson

from kgroups_spark.escapes import json_text, printable
from kgroups_spark.terminal.display import Pieces, display_width, filled, words
from kgroups_spark.terminal.style import OWN_MARKS
from kgroups_spark.terminal.text_table import NULL, TextTable
from kgroups_spark.times import format_time, format_time_for_people

FORMATS = ("table", "json", "csv")
_GOES_ON = "  "  # before a line that continues the previous one

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of a command's output: its contract name, and its heading on the screen.

    `broken`: where its text may break on a narrow screen (display.words; None: nowhere). `says_none`: a column without
    values says something, too, so a narrow screen keeps it.
    """

    name: str
    heading: str = ""
    broken: Callable[[str], str] | None = None
    says_none: bool = False


def write_rows(rows: Iterable[Row], columns: Sequence[Column], form: str, out: TextIO | None = None) -> int:
    """Writes the rows to `out` (default: stdout) in one of FORMATS; returns their number."""
    out = out or sys.stdout
    writer = {"table": _write_table, "json": _write_json_lines, "csv": _write_csv}[form]
    return writer(rows, columns, out)


def _write_json_lines(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    count, names = 0, [column.name for column in columns]
    for count, row in enumerate(rows, 1):  # noqa: B007  the count is the result
        out.write(json_line(row if [*row] == names else {name: row[name] for name in names}))
    return count


def json_line(row: Row) -> str:
    """One object as a line, with its line end; `plain_value` converts types that JSON lacks."""
    try:
        line = orjson.dumps(row, _plain, orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:  # numbers of more than 64 bits
        return json_text(json.dumps(row, ensure_ascii=False, default=plain_value, separators=(",", ":"))) + "\n"
    # orjson escapes the control characters below the blank.
    return (line.decode() if line.isascii() and b"\x7f" not in line else json_text(line.decode())) + "\n"


def _plain(value: Any) -> Any:
    plain = plain_value(value)
    if plain is value:
        raise TypeError
    return plain


def _write_csv(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    write = csv_rows(out)
    write([column.name for column in columns])
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007
        write([plain_value(row[column.name]) for column in columns])
    return count


def csv_rows(out: TextIO) -> Callable[[Iterable[Any]], object]:
    """A function that writes one row: null as an empty cell, lists and objects as JSON text, a line feed at the end.

    A cell with a comma, a quote, a carriage return or a line feed is quoted, by every release of Python. On a terminal,
    which no program reads, control characters are spelled out as in a table.
    """
    writer = csv.writer(_LineFeeds(out), lineterminator=_LineFeeds.INSTEAD_OF)
    shown = printable if out.isatty() else str
    return lambda cells: writer.writerow([shown(cell) if isinstance(cell, str) else cell for cell in _csv_cells(cells)])


class _Writes(Protocol):
    def write(self, text: str, /) -> object: ...


class _LineFeeds:
    """A file whose lines end with a line feed. Python's writer quotes the characters of its own line end only (all of
    them from 3.13 on), so its line end is both characters."""

    INSTEAD_OF = "\r\n"

    def __init__(self, out: _Writes) -> None:
        self._out = out

    def write(self, line: str) -> object:
        return self._out.write(line.removesuffix(self.INSTEAD_OF) + "\n")


def _csv_cells(cells: Iterable[Any]) -> Iterator[Any]:
    for value in cells:
        yield json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else value


def plain_value(value: Any) -> Any:
    """The value for JSON: times as ISO 8601, bytes as base64, also inside lists and objects."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    return value


def table_of(rows: Iterable[Row], columns: Sequence[Column]) -> TextTable:
    """The rows as a table for a screen."""
    kept = [column.heading for column in columns if column.says_none]
    table = TextTable([column.heading for column in columns], kept)
    for row in rows:
        table.add([_cell(row[column.name], column) for column in columns])
    return table


def _write_table(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    table = table_of(rows, columns)
    for line in table.lines(screen_width(out)):
        show(line, out)
    return len(table.rows)


def _cell(value: Any, column: Column) -> str | int:
    cell = table_cell(value)
    return column.broken(cell) if column.broken is not None and isinstance(cell, str) and cell is not NULL else cell


def table_cell(value: Any) -> str | int:
    """The text of a table's cell: `-` for null as in Kafka's tools, a list's values separated by commas, objects as
    JSON."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return value
    if isinstance(value, datetime):
        return format_time_for_people(value)
    if isinstance(value, list | tuple):
        items = [str(table_cell(inner)) for inner in value]
        return Pieces([*(f"{item}," for item in items[:-1]), items[-1]]) if items else NULL
    if isinstance(value, Mapping):
        return json.dumps(plain_value(value), ensure_ascii=False)
    return str(plain_value(value))


@contextmanager
def buffered_stdout() -> Iterator[None]:
    """In the block, stdout has a buffer, also with PYTHONUNBUFFERED, which spark-submit and most images set. Without a
    buffer Python drops what the system leaves of a write: on a full disk the rows would end early, without an error."""
    unbuffered = sys.stdout
    raw = getattr(unbuffered, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        yield
        return
    buffer: Any = io.BufferedWriter(raw)
    buffered = io.TextIOWrapper(buffer, unbuffered.encoding, unbuffered.errors, line_buffering=unbuffered.isatty())
    sys.stdout = buffered
    try:
        yield
    finally:
        sys.stdout = unbuffered
        try:
            buffered.flush()
        except OSError:
            drop(buffered)
        buffered.detach().detach()  # stdout itself stays open


def drop(stream: TextIO) -> None:
    """Redirects stdout or stderr to the null device. Otherwise Python's flush at exit would fail for the closed pipe or
    the full disk."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_stderr(text: str) -> None:
    """Writes to stderr. If its reader has gone or its disk is full, the work goes on, and its exit code counts."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)


@contextmanager
def until_closed() -> Iterator[None]:
    """In the block, a reader that closes the pipe (`| head`) ends the output, not the command, whose exit code means
    something."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)


_is_wide: ContextVar[bool] = ContextVar("_is_wide", default=False)


@contextmanager
def wide_tables(is_wide: bool) -> Iterator[None]:
    """Prints the block's tables at full width, even on a terminal: --wide."""
    before = _is_wide.set(is_wide)
    try:
        yield
    finally:
        _is_wide.reset(before)


def screen_width(out: TextIO) -> int | None:
    """Columns of the terminal of `out`; None: it is a file or a pipe, or --wide was given, so lines may have any
    length."""
    return None if _is_wide.get() or not out.isatty() else terminal_width(out)


def terminal_width(out: TextIO) -> int:
    """Columns of the terminal of `out`: $COLUMNS, otherwise the terminal's own value, otherwise 80."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (ValueError, OSError):
        return 80


def show(line: str, out: TextIO | None = None) -> None:
    """Prints a line for people on stdout, or on `out`. Marks of Style stay, other control characters are spelled
    out."""
    shown = "".join(part if OWN_MARKS.fullmatch(part) else printable(part) for part in OWN_MARKS.split(line))
    (out or sys.stdout).write(shown + "\n")


def say(text: str) -> None:
    """Prints a line for a person on stderr, so that stdout has only rows. Control characters, including line feeds, are
    spelled out. On a terminal a sentence breaks between words; an indented line with an option, such as a command to
    copy, does not."""
    text, width = printable(text), terminal_width(sys.stderr) if sys.stderr.isatty() else None
    for line in [text] if text.startswith(" ") and " --" in text else wrapped(text, width):
        write_stderr(line + "\n")


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of this width, broken between words; later lines are indented, by more than the first one.
    None: in one line."""
    if width is None or display_width(text) <= width:
        return [text]
    sentence = text.lstrip(" ")
    begins = " " * (len(text) - len(sentence))
    first, *others = filled(words(sentence), width - len(begins + _GOES_ON))
    return [begins + first, *(begins + _GOES_ON + line for line in others)]


class _Spoken(logging.Handler):
    """Log records of libraries, as lines for people. py4j logs the stacks of failures that it raises as well, so they
    are left out."""

    def emit(self, record: logging.LogRecord) -> None:
        if "py4j" not in Path(record.pathname).parts:
            say_lines(self.format(record).split("\n"))


@contextmanager
def spoken_logs() -> Iterator[None]:
    """In the block, warnings that libraries log are printed by `say`, unless logging is configured."""
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler = _Spoken(logging.WARNING)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
