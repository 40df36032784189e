"""SQL over the tables, views and functions of a lake

Runs queries over the lake as the last finished audit left it: as QUERY, from a file, from a prompt (TAB completes
names), or from stdin if it is not a terminal. Statements end with a semicolon. Queries cannot change anything. The SQL
is DuckDB's, with --engine spark Spark's. .tables lists tables, views and functions; .describe NAME shows the columns of
one.

examples:
  kgroups sql --lake ./lake                                     a prompt
  kgroups sql --lake ./lake .tables                             tables, views and functions
  kgroups sql --lake ./lake '.describe offset_history'          columns and their meaning
  kgroups sql --lake ./lake "SELECT group_id, state FROM groups WHERE member_count = 0"
  kgroups sql --lake ./lake "SELECT * FROM committed_offsets_as_of('2026-11-15 08:00Z')"
  kgroups sql --lake ./lake --file report.sql --format csv > report.csv"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgroups_spark.commands.form import LAKE, ROWS, Option, screen
from kgroups_spark.commands.moments import incomplete_history
from kgroups_spark.counts import counted
from kgroups_spark.durations import exact_duration
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.interruption import going_on, is_interruption
from kgroups_spark.nearest import did_you_mean, suggested
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader, SqlError, python_rows
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.terminal.options import text_value
from kgroups_spark.terminal.output import Column, say, say_lines, show, write_rows
from kgroups_spark.terminal.sql_prompt import Prompt
from kgroups_spark.terminal.sql_statements import is_for_prompt, statements
from kgroups_spark.views import FUNCTIONS, VIEWS
from kgroups_spark.views.descriptions import described
from kgroups_spark.views.needed import NAMES, needed_for
from kgroups_spark.views.record_views import RECORD_VIEWS

POINTED = (".tables", ".describe", ".help", ".quit")
QUIT = (".quit", ".exit", "\\q", "quit", "exit")
NAMES_ARE_LISTED = "in kgroups sql, .tables lists tables, views and functions, .describe NAME the columns of one"
ROWS_AT_PROMPT = 500  # of one answer, at a terminal
# Editors of Windows begin a file with it.
BYTE_ORDER_MARK = "\ufeff"
HELP = """\
.tables          tables, views and functions
.describe NAME   columns of one (also \\d NAME)
.help            this
.quit            leave (also exit, quit, Ctrl-D); a command may be shortened (.d NAME)
Anything else is SQL; a statement ends with a semicolon, Ctrl-C discards the input."""


OPTIONS = (
    Option("query QUERY", "the query, or several with semicolons between them", text_value, more={"nargs": "?"}),
    Option("--file F", "read the queries from this file"),
    LAKE,
    *ROWS,
)


def run(arguments: argparse.Namespace) -> int:
    if arguments.query is not None and arguments.file is not None:
        raise UsageError("QUERY and --file are two sources: give one of them")
    text, where = arguments.query, "QUERY"
    if arguments.file is not None:
        where = arguments.file
        with _is_text(arguments.file):
            text = Path(arguments.file).read_text("utf-8")
    session = Session(open_lake(arguments), arguments.format)
    if text is None and sys.stdin.isatty():
        session.talk()
        return 0
    if text is None:
        where = "stdin"
        with _is_text(where):
            text = sys.stdin.read()
    if not session.run(text.removeprefix(BYTE_ORDER_MARK)):
        raise UsageError(f"{where} has no statement; kgroups sql without QUERY, at a terminal, opens a prompt")
    return 0


@contextmanager
def _is_text(where: str) -> Iterator[None]:
    """Raises UsageError if the block's input is not text, or cannot be read."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error


class Session:
    """Statements run one after the other over one lake."""

    def __init__(self, reader: LakeReader, form: str) -> None:
        self.reader = reader
        self.form = form
        self.most_rows: int | None = None

    def run(self, text: str) -> bool:
        """Runs all statements, up to .quit. Returns whether there is one. Raises KgroupsError at the first one that
        fails."""
        complete, rest = statements(text, self.reader.engine)
        found = [*complete, *([rest] if rest else [])]
        for statement in found:
            if _whole(statement) in QUIT:
                break
            self._do(statement)
        return bool(found)

    def talk(self) -> None:
        """Runs a prompt until its end. Reports a statement that fails and goes on."""
        say(f"{_known_as_of(self.reader)}, read by {self.reader.engine}; .help helps")
        prompt, typed = Prompt(known_words()), ""
        self.most_rows = ROWS_AT_PROMPT if sys.stdout.isatty() else None
        while True:
            try:
                line = prompt.line(goes_on=bool(typed))
            except KeyboardInterrupt as asked:
                going_on(asked)
                typed = ""
                say("")
                continue
            except UnicodeDecodeError:
                say("the input is not UTF-8 text")
                continue
            if line is None:
                return
            if not typed and _whole(line) in QUIT:
                return
            complete, rest = statements(f"{typed}{line}\n", self.reader.engine)
            typed = f"{rest}\n" if rest else ""
            for statement in complete:
                if _whole(statement) in QUIT:
                    return
                self._guarded(statement)

    def _do(self, statement: str) -> None:
        if is_for_prompt(statement):
            self._tell(statement)
        else:
            self._answer(statement)

    def _guarded(self, statement: str) -> None:
        try:
            self._do(statement)
        except BaseException as error:
            if is_interruption(error):
                going_on(error)
                say("interrupted")
            elif isinstance(error, KgroupsError):
                say_lines(error.lines)
            else:
                raise

    def _answer(self, statement: str) -> None:
        try:
            table = self.reader.arrow(statement)
        except SqlError as error:
            raise SqlError(*error.lines, *((NAMES_ARE_LISTED,) if error.is_of_name else ())) from error
        if statement.lower().startswith("explain") and self.form == "table":
            for text in table.column(table.num_columns - 1).to_pylist():
                for line in str(text).split("\n"):
                    show(line)
            return
        table = table.rename_columns(_distinct(table.schema.names))
        shown = table.slice(0, self.most_rows)
        rows = [{name: _printable(value) for name, value in row.items()} for row in python_rows(shown)]
        write_rows(rows, [Column(name, name) for name in table.schema.names], self.form)
        sys.stdout.flush()
        more = "" if len(shown) == len(table) else f", the first {len(shown)} shown: kgroups sql QUERY prints all"
        say(f"{counted(len(table), 'row')}{more} ({_known_as_of(self.reader)})")
        if any(name.endswith("_as_of") for name in needed_for(statement)):
            say_lines(self._incomplete)

    @cached_property
    def _incomplete(self) -> list[str]:
        return incomplete_history(self.reader)

    def _tell(self, line: str) -> None:
        """Runs a dot command. Raises UsageError."""
        word, _, name = line.rstrip(";").partition(" ")
        word = _whole(word)
        name = name.strip().lower()
        if word == ".tables":
            write_rows(list(_everything()), screen("kind name what~"), self.form)
        elif word in (".describe", "\\d") and name:
            self._describe(name)
        elif word in (".describe", "\\d"):
            raise UsageError(f"{word} needs a name (.tables has all)")
        elif word in (".help", "\\?"):
            say_lines(HELP.splitlines())
        elif word in QUIT:
            raise UsageError(f"{word} takes no argument")
        else:
            raise UsageError(f"{word} is unknown{suggested(word, POINTED)}")

    def _describe(self, name: str) -> None:
        if name not in NAMES:
            raise UsageError(f"no table, view or function {name}{did_you_mean(name, NAMES)} (.tables has all)")
        found = described(name)
        if found.arguments is not None:
            say(f"{name}({found.arguments}): {found.comment}")
            return
        say(f"{name}: {found.comment}")
        schema = self.reader.arrow(f"SELECT * FROM {name} LIMIT 0").schema
        types = {field.name: _type_name(field.type) for field in schema}
        rows = [{"column": column, "type": types.get(column), "what": what} for column, what in found.columns.items()]
        write_rows(rows, screen("column type what~"), self.form)


def _whole(command: str) -> str:
    """The dot command that this one begins, if there is one only."""
    command = command.strip().rstrip(";").lower()
    found = [each for each in (*POINTED, ".exit") if each.startswith(command) and command.startswith(".")]
    return found[0] if len(found) == 1 else command


def known_words() -> list[str]:
    """Names that TAB completes: tables, views, functions, their columns."""
    columns = {column for name in (*TABLES, *VIEWS) if name not in RECORD_VIEWS for column in described(name).columns}
    return sorted({*NAMES, *columns, *POINTED})


def _everything() -> Iterator[dict[str, str]]:
    for kind, names in (("table", TABLES), ("view", VIEWS), ("function", FUNCTIONS)):
        for name in names:
            found = described(name)
            shown = name if found.arguments is None else f"{name}({found.arguments})"
            yield {"kind": kind, "name": shown, "what": found.comment}


def _type_name(data_type: pa.DataType) -> str:
    if pa.types.is_timestamp(data_type):
        return "timestamp"
    if pa.types.is_list(data_type):
        return f"list of {_type_name(data_type.value_type)}"
    if pa.types.is_map(data_type):
        return f"map to {_type_name(data_type.item_type)}"
    if pa.types.is_struct(data_type):
        return "struct"
    names = {"int64": "bigint", "int32": "int", "int16": "smallint", "bool": "boolean"}
    return names.get(str(data_type), str(data_type))


def _known_as_of(reader: LakeReader) -> str:
    try:
        return reader.known_as_of()
    except KgroupsError:
        return "no audit has finished"


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, made distinct: two columns of the same name would become one in a dict."""
    found: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in itertools.count(1))
        found.append(next(each for each in itertools.chain([name], others) if each not in found))
    return found


def _printable(value: Any) -> Any:
    """The value for a table and for JSON; as text unless it is a number, text, bytes or time."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, timedelta):
        return exact_duration(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, dict):
        return {str(name): _printable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return str(value)
