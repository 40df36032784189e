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
import io
import itertools
import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgroups_spark.cli.form import LAKE, ROWS, Option, incomplete_history, screen, text_value
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import Column, say, say_lines, show, write_rows
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.spark.interruption import going_on, is_interruption
from kgroups_spark.sql.reader import LakeReader, SqlError, python_rows
from kgroups_spark.sql.views import FUNCTIONS, NAMES, RECORD_VIEWS, VIEWS, columns_of, described, needed_for
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, did_you_mean, exact_duration, first_of, suggested

try:
    import readline
except ImportError:  # Windows, and builds of Python without it: plain lines
    readline = None  # type: ignore[assignment]

FIRST, NEXT = "kgroups> ", "     ... "


class Prompt:
    """Reads lines from a terminal."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: the names that TAB completes, ignoring case."""
        self._words = words
        self._found: list[str] = []
        if readline is not None:
            readline.set_completer(self._complete)
            readline.set_completer_delims(" \t\n,()=<>;'\"+-*/")
            is_libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def line(self, *, goes_on: bool) -> str | None:
        """The next line; None: Ctrl-D. `goes_on`: within a statement. Raises KeyboardInterrupt for Ctrl-C."""
        prompt = NEXT if goes_on else FIRST
        if sys.stdout.isatty():
            try:
                return input(prompt)
            except EOFError:
                sys.stderr.write("\n")
                return None
        # stdout is a file for the rows, so the prompt must not go there.
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None

    def _complete(self, text: str, number: int) -> str | None:
        if number == 0:
            self._found = [word for word in self._words if word.startswith(text.lower())]
        return self._found[number] if number < len(self._found) else None


# SQL text split into statements and dot commands. `duckdb.extract_statements` refuses the whole text for one mistake,
# for a line with a dot, and for a last statement that is still being typed.


# The gap between statements, and a line for the prompt itself, which is the only group.
_BETWEEN = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:([.\\][^\n]*)(?:\n|$))?", re.DOTALL)
_OPEN_COMMENT = re.compile(r"/\*.*", re.DOTALL)


def statements(text: str, dialect: str = "duckdb") -> tuple[list[str], str]:
    """The parts of a text, in order, and the rest after the last semicolon. Parts are statements, without their
    semicolon, and dot (or backslash) commands between statements, which need none. No part is empty, and a rest of
    comments alone is empty. `dialect`: duckdb or spark."""
    found: list[str] = []
    start, ends = 0, _ends(text, 0, dialect)
    while True:
        between = _BETWEEN.match(text, start)
        assert between is not None  # it also matches the empty text
        start = between.end()
        if between[1]:
            found.append(between[1].strip())
            ends = _ends(text, start, dialect)
            continue
        end = next((end for end in ends if end >= start), None)
        if end is None:
            rest = text[start:].strip()
            return found, "" if _OPEN_COMMENT.fullmatch(rest) else rest
        found.append(text[start:end].strip())
        start = end + 1


def _ends(text: str, start: int, dialect: str) -> Iterator[int]:
    """The positions of semicolons outside of texts, names and comments."""
    # Imported here: otherwise every command would be a third of a second slower.
    from sqlglot import Dialect, TokenError, TokenType

    tokenizer = Dialect.get_or_raise(dialect).tokenizer()
    with suppress(TokenError):  # the last text or name is not closed: only the part before it counts
        tokenizer.tokenize(text[start:])
    return (start + token.start for token in tokenizer.tokens if token.token_type == TokenType.SEMICOLON)


POINTED = (".tables", ".describe", ".help", ".quit")
QUIT = (".quit", ".exit", "\\q", "quit", "exit")
NAMES_ARE_LISTED = "in kgroups sql, .tables lists tables, views and functions, .describe NAME the columns of one"
ROWS_AT_PROMPT = 500  # of one answer, at a terminal
_READS_LAG = re.compile(r"\b(?:from|join)\s+(?:share_)?lag\b", re.IGNORECASE)
NO_LAG = (
    "lag is null: no audit of a live cluster has asked for the ends of the topics (kgroups audit --bootstrap-server)"
)
_NO_COLUMN = re.compile(r"""(?:column|name) ["`](\w+)["`] (?:not found|cannot be resolved)""")
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


class _Screen(io.StringIO):
    """Holds what is printed, and is as wide as the terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@contextmanager
def _paged() -> Iterator[None]:
    """Shows what the block prints, in $PAGER or less if it is longer than the terminal."""
    import pydoc  # 40 ms that only a prompt needs

    with redirect_stdout(_Screen()) as screen:
        yield
    text = screen.getvalue()
    os.environ.setdefault("LESS", "-R")  # colours
    is_long = text.count("\n") >= shutil.get_terminal_size().lines
    (pydoc.pager if is_long else sys.stdout.write)(text)


class Session:
    """Statements run one after the other over one lake."""

    def __init__(self, reader: LakeReader, form: str) -> None:
        self.reader = reader
        self.form = form
        self.most_rows: int | None = None

    def run(self, text: str) -> bool:
        """Runs all statements, up to .quit; returns whether there is one. Raises KgroupsError at one that fails."""
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
        if statement.startswith((".", "\\")):
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
            hints = [NAMES_ARE_LISTED] if error.is_of_name else _where_the_column_is(error.lines[0])
            raise SqlError(*error.lines, *hints) from error
        if statement.lower().startswith("explain") and self.form == "table":
            for text in table.column(table.num_columns - 1).to_pylist():
                for line in str(text).split("\n"):
                    show(line)
            return
        table = table.rename_columns(_distinct(table.schema.names))
        shown = table.slice(0, self.most_rows)
        rows = [{name: _printable(value) for name, value in row.items()} for row in python_rows(shown)]
        with _paged() if self.most_rows else nullcontext():
            write_rows(rows, [Column(name, name) for name in table.schema.names], self.form)
        sys.stdout.flush()
        more = "" if len(shown) == len(table) else f", the first {len(shown)} shown: kgroups sql QUERY prints all"
        say(f"{counted(len(table), 'row')}{more} ({_known_as_of(self.reader)})")
        if any(name.endswith("_as_of") for name in needed_for(statement)):
            say_lines(incomplete_history(self.reader))
        if _READS_LAG.search(statement) and not self._knows_ends:
            say(NO_LAG)

    @cached_property
    def _knows_ends(self) -> bool:
        return bool(self.reader.sql("SELECT 1 AS one FROM topic_offsets WHERE log_end_offset IS NOT NULL LIMIT 1"))

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


def _where_the_column_is(message: str) -> list[str]:
    """A line that names the tables and views with the column that a query asked of another one."""
    found = _NO_COLUMN.search(message)
    having = [name for name in (*TABLES, *VIEWS) if found and found[1].lower() in columns_of(name)]
    return [f"{found[1]} is a column of {first_of(having, 5)}"] if found and having else []


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
