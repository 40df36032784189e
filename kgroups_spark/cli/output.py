"""Rows on stdout as a table, as JSON lines or as CSV; everything else goes to stderr.

A row is a dict with the column names of the tables. Times are datetimes with a zone, bytes are bytes. JSON and CSV have
all columns of a row under those names, times as ISO 8601 in UTC with milliseconds, bytes as base64. A table is for
people: it has fewer columns, Kafka's headings, and times without milliseconds.

No control characters reach a terminal, because names come from a log. CSV for a file or a pipe has every text
unchanged, also one that a spreadsheet may take for a formula: a prefix would change it for every other reader.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import logging
import os
import re
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import orjson

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.words import cell_text, counted, format_time, format_time_for_people, json_text, printable

FORMATS = ("table", "json", "csv")
_GOES_ON = "  "  # before a line that continues the previous one

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a command's output: its contract name, and its heading on the screen. A narrow screen may break the
    text of a sentence between words, and leave out a minor column."""

    name: str
    heading: str = ""
    is_sentence: bool = False
    is_minor: bool = False


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
    The same cells are quoted by every release of Python. A terminal gets control characters spelled out."""
    writer = csv.writer(_LineFeeds(out), lineterminator=_LineFeeds.INSTEAD_OF)
    shown = printable if out.isatty() else str

    def cell(value: Any) -> Any:
        value = json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list | dict) else value
        return shown(value) if isinstance(value, str) else value

    return lambda cells: writer.writerow([*map(cell, cells)])


class _LineFeeds:
    """A file whose lines end with a line feed. Python's writer quotes the characters of its own line end only (all of
    them from 3.13 on), so its line end is both characters."""

    INSTEAD_OF = "\r\n"

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, line: str) -> object:
        return self._out.write(line.removesuffix(self.INSTEAD_OF) + "\n")


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


def _write_table(rows: Iterable[Row], columns: Sequence[Column], out: TextIO) -> int:
    cells = [[row[column.name] for column in columns] for row in rows]
    lines, left_out = table_lines(columns, cells, screen_width(out))
    for line in lines:
        show(line, out)
    _left_out.get({}).update(dict.fromkeys(left_out))
    return len(cells)


_GAP = "  "
_NARROWEST_TEXT = 16  # a narrower sentence is hard to read
_HIGHEST_ROW = 3  # in lines; higher ones are easier to read as blocks


class _Texts(NamedTuple):
    """A column as it is shown: the texts of its cells below its heading, `width` columns wide."""

    column: Column
    cells: Sequence[str]
    width: int
    is_numeric: bool
    says_something: bool

    @classmethod
    def of(cls, column: Column, values: Sequence[Any]) -> _Texts:
        shown = printable if column.is_sentence else cell_text
        cells = [table_cell(value) if _is_null(value) else shown(table_cell(value)) for value in values]
        known = [value for value in values if not _is_null(value)]
        is_numeric = bool(known) and all(isinstance(value, int) and not isinstance(value, bool) for value in known)
        width = max(display_width(text) for text in (column.heading, *cells))
        return cls(column, cells, width, is_numeric, bool(known) or not values)

    def lines_of(self, text: str) -> list[str]:
        """The text of a cell or the heading in as many lines as it needs."""
        return filled(text, self.width) if self.column.is_sentence else [text]

    def padded(self, text: str) -> str:
        blanks = " " * (self.width - display_width(text))
        return blanks + text if self.is_numeric else text + blanks


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int | None = None
) -> tuple[list[str], list[str]]:
    """A heading and rows as lines, and the headings that are left out. Numbers, times and names are never cut. If the
    rows are wider than `width`, columns without values are dropped first, then sentences wrap and minor columns are
    left out, the last one first. If that is not enough, each row is a block with a line for each column."""
    texts = [_Texts.of(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    if width is None or _total(texts) <= width:
        return _aligned(texts), []
    texts = [each for each in texts if each.says_something] or texts
    left_out = list[_Texts]()
    for last in [None, *(each for each in reversed(texts) if each.column.is_minor)]:
        left_out += [] if last is None else [last]
        if fitting := _fitting([each for each in texts if each not in left_out], width):
            return _aligned(fitting), [each.column.heading for each in texts if each in left_out]
    return _blocks(texts), []


def _total(texts: Sequence[_Texts]) -> int:
    """The widths and the gaps between them."""
    return sum(each.width + len(_GAP) for each in texts) - len(_GAP)


def _fitting(texts: list[_Texts], width: int) -> list[_Texts]:
    """The columns with the widest sentences made narrower; empty if rows do not fit, or would be too high."""
    for index in sorted(range(len(texts)), key=lambda index: -texts[index].width):
        if texts[index].column.is_sentence:
            less = max(_NARROWEST_TEXT, texts[index].width - max(_total(texts) - width, 0))
            texts[index] = texts[index]._replace(width=min(texts[index].width, less))
    highest = max((len(each.lines_of(cell)) for each in texts for cell in each.cells), default=0)
    return texts if _total(texts) <= width and highest <= _HIGHEST_ROW else []


def _aligned(texts: Sequence[_Texts]) -> list[str]:
    rows = zip(*([each.column.heading, *each.cells] for each in texts), strict=True)
    lines = []
    for row in rows:
        cells = (each.lines_of(cell) for each, cell in zip(texts, row, strict=True))
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (each.padded(part) for each, part in zip(texts, parts, strict=True))
            lines.append(_GAP.join(padded).rstrip(" "))
    return lines


def _blocks(texts: Sequence[_Texts]) -> list[str]:
    """A block of lines for each row, with a blank line between two; without rows only the headings."""
    room = max(display_width(each.column.heading) for each in texts) + len(_GAP)
    if not texts[0].cells:
        return [each.column.heading for each in texts]
    blocks = [
        [each.column.heading.ljust(room) + each.cells[number] for each in texts]
        for number in range(len(texts[0].cells))
    ]
    return [line for block in blocks for line in ("", *block)][1:]


def filled(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns. A longer word has a line of its own; a time stays whole."""
    whole = _TIME.sub(lambda time: time[0].replace(" ", "\xa0"), text)
    lines = textwrap.wrap(whole, max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines] or [""]


_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d\S*(?: UTC)?")


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    # Hangul vowels and final consonants join the consonant before them.
    if unicodedata.category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _is_null(value: Any) -> bool:
    return value is None or value in ([], ())


def table_cell(value: Any) -> str:
    """The text of a cell: `-` for null as in Kafka's tools, a list's values with commas, objects as JSON."""
    if _is_null(value):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return format_time_for_people(value)
    if isinstance(value, list | tuple):
        return ",".join(map(table_cell, value))
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
    """Redirects stdout or stderr to the null device, or Python's flush at exit would fail, too."""
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
    """In the block, a reader that closes the pipe (as head does) ends the output, but not the command."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)


_is_wide: ContextVar[bool] = ContextVar("_is_wide", default=False)
_left_out: ContextVar[dict[str, None]] = ContextVar("_left_out")  # headings


@contextmanager
def wide_tables(is_wide: bool) -> Iterator[None]:
    """--wide: prints the block's tables at full width. Else names the columns that a narrow screen left out."""
    before, left_out = _is_wide.set(is_wide), dict[str, None]()
    _left_out.set(left_out)
    try:
        yield
    finally:
        _is_wide.reset(before)
    if left_out:
        sys.stdout.flush()
        say(f"{counted(len(left_out), 'column')} left out: {', '.join(left_out)} (--wide has all)")


def screen_width(out: TextIO) -> int | None:
    """Columns of the terminal of `out`; None: lines may have any length (a file, a pipe, --wide)."""
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
    """Prints a line for people on stdout, or on `out`. Control characters are spelled out."""
    (out or sys.stdout).write(printable(line) + "\n")


def say(text: str) -> None:
    """Prints a line for a person on stderr, so that stdout has only rows. Control characters, including line feeds, are
    spelled out. On a terminal a sentence breaks between words; an indented line with an option, such as a command to
    copy, does not."""
    text, width = printable(text), terminal_width(sys.stderr) if sys.stderr.isatty() else None
    for line in [text] if text.startswith(" ") and " --" in text else wrapped(text, width):
        write_stderr(line + "\n")


def wrapped(text: str, width: int | None) -> list[str]:
    """The text in lines of this width (None: one line), broken between words; later lines are indented more."""
    if width is None or display_width(text) <= width:
        return [text]
    sentence = text.lstrip(" ")
    begins = " " * (len(text) - len(sentence))
    first, *others = filled(sentence, width - len(begins + _GOES_ON))
    return [begins + first, *(begins + _GOES_ON + line for line in others)]


class _Spoken(logging.Handler):
    """Log records of libraries for people, without those of py4j, which logs the stacks that it raises as well."""

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


_DEVICES = Path("/dev")
# The name of stdout as an output, as in Kafka's and most other tools; a file of that name is ./-
STDOUT = "-"


def require_place(output: str, example: str) -> None:
    """Raises UsageError, before any work, if no file can be written there (not for a URI). `example`: a file name."""
    if _is_uri(output) or output == STDOUT:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"--output {output} is a folder; name a file in it: {path / example}")
    if _is_no_plain_file(path):
        if not os.access(path, os.W_OK):
            raise UsageError(f"--output {output} cannot be written to")
        return
    folder = _followed(path).parent
    if not folder.is_dir():
        raise UsageError(f"--output {output}: no folder {folder}; create it first")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output {output}: the folder {folder} cannot be written to")


def write_file(output: str, content: bytes) -> None:
    """Writes all of the content or, if that fails, none of it: an older file stays unchanged. Raises KgroupsError."""
    if output == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        if _is_uri(output):
            from kgroups_spark.sources.files import file_system

            system, place = file_system(output)
            with system.open_output_stream(place) as file:  # an object store shows an object only once it is closed
                file.write(content)
        else:
            _write_local(Path(output), content)
    except (OSError, ValueError, NotImplementedError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or error
        raise KgroupsError(f"{output} could not be written: {said}") from error


def _is_uri(output: str) -> bool:
    return "://" in output


def _is_no_plain_file(output: Path) -> bool:
    """Whether it is a pipe, a device or the like, which another file must not replace: root would delete /dev/null.
    /dev/stdout is a link, maybe to a plain file; files of /dev/shm are plain."""
    return output.exists() and (not output.is_file() or (output.is_symlink() and output.is_relative_to(_DEVICES)))


def _followed(output: Path) -> Path:
    """The file that is written: the target of a link, which stays."""
    return Path(os.path.realpath(output)) if output.is_symlink() else output


def _write_local(output: Path, content: bytes) -> None:
    if _is_no_plain_file(output):
        output.write_bytes(content)
        return
    output = _followed(output)
    # The name cannot be guessed, and an existing file or link of that name is refused.
    part = output.with_name(f".{output.name}.{os.urandom(8).hex()}")
    file = part.open("xb")
    try:
        with file:
            file.write(content)
        part.replace(output)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


_SECONDS_BETWEEN_LINES = 5.0  # where lines are not overwritten: in a log file, in a scheduler


class Progress:
    """Call it with the current step. A terminal shows one line, which is overwritten; it may wrap, because nothing is
    cut. Elsewhere, and on a terminal without control sequences, a line is printed now and then."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_line = 0.0
        self._lines = 1

    def __call__(self, text: str) -> None:
        if self._on_terminal:
            lines = textwrap.wrap(printable(text), max(1, terminal_width(sys.stderr) - 1)) or [""]
            write_stderr(self._cleared + "\n".join(lines))
            self._lines = len(lines)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            say(text)

    def done(self) -> None:
        """Removes the line."""
        if self._on_terminal:
            write_stderr(self._cleared)
            self._lines = 1

    @property
    def _cleared(self) -> str:
        """The control sequence that moves to the first shown line and clears from there on."""
        up = f"\x1b[{self._lines - 1}A" if self._lines > 1 else ""
        return f"\r{up}\x1b[J"


@contextmanager
def work_reported(failed: str) -> Iterator[Progress]:
    """Shows the progress of the block's work. A failure is one line, which begins with `failed`."""
    from kgroups_spark.errors import machine_failures_reported

    progress = Progress()
    try:
        with machine_failures_reported(failed):
            yield progress
    finally:
        progress.done()
