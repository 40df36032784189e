"""Rows of text for a screen. Numbers, times and names are never cut: if a row is too wide, the form changes.

If a screen is too narrow for all columns, empty columns are dropped first. Next, headings and sentences wrap. Then
minor columns are left out, the last one first, if the others fit. If not, a row takes two or three lines, with some of
its columns in each:

    GROUP           TYPE      STATE        #OFFSETS
        EXPIRES-AT (UTC)     IN
    audit-archiver  consumer  Stable              2
        2026-11-13 08:19:05  now

If that is not enough, each row is printed as a block, with a line for each column.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TextIO

from kgroups_spark.words import cell_text, printable

# The width of a text on a terminal, in columns, and where it may break: never inside a word.


# A word with the blanks after it. A date stays with its time, and a time with its zone.
_WORD = re.compile(r"^ +|(?:\S*\d{4}-\d\d-\d\d \d\d:\d\d\S*|\S+)(?: UTC\S*)? *")
_LIST_ITEM = re.compile(r".*?\d[,;]|.+", re.DOTALL)  # of 'orders:0,1;payments:2'
_HEADING_WORD = re.compile(r"[^-/ ]*[-/ ]+|[^-/ ]+")


class Pieces(str):
    """Text that may break between its `pieces`, which together are the text."""

    pieces: tuple[str, ...]

    def __new__(cls, pieces: Iterable[str]) -> Pieces:
        all_of_them = tuple(pieces)
        made = super().__new__(cls, "".join(all_of_them))
        made.pieces = all_of_them
        return made


def words(text: str) -> Pieces:
    """A sentence, which may break between words."""
    return Pieces(_WORD.findall(text))


def list_items(text: str) -> Pieces:
    """A list such as `orders:0,1;payments:2`, which may break after a number."""
    return Pieces(_LIST_ITEM.findall(text))


def heading_words(text: str) -> Pieces:
    """A heading, which may break after `-`, `/` and blanks."""
    return Pieces(_HEADING_WORD.findall(text))


def pieces_of(text: str) -> tuple[str, ...]:
    """The pieces of a text; one that is not Pieces is one piece, however long."""
    return text.pieces if isinstance(text, Pieces) else (text,)


def narrowest(text: str) -> int:
    """The least number of columns for the text: those of its longest piece."""
    return max((display_width(piece.rstrip(" ")) for piece in pieces_of(text)), default=0)


def filled(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns; a longer piece has a line of its own. At least one line, which may
    be empty."""
    lines, line, room = [], "", 0
    for piece in pieces_of(text):
        needed = display_width(piece.rstrip(" "))
        if line and room + needed > width:
            lines.append(line.rstrip(" "))
            line, room = "", 0
        line += piece
        room += display_width(piece)
    return [*lines, line.rstrip(" ")]


def side_by_side(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], gap: str) -> list[str]:
    """One row of a table in as many lines as its highest cell needs."""
    columns = [filled(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return [
        gap.join(map(_padded_to, parts, widths, right)).rstrip(" ") for parts in zip_longest(*columns, fillvalue="")
    ]


def _padded_to(text: str, width: int, right: bool) -> str:
    """The text with blanks up to `width` columns; `right`: the blanks are in front."""
    padding = " " * (width - display_width(text))
    return padding + text if right else text + padding


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


_GAP = "  "
_INDENT = "    "  # of a row's lines after its first
_NARROWEST_TEXT = 16  # a narrower sentence is hard to read
_HIGHEST_ROW = 3  # in lines; higher ones are easier to read as blocks


class _Null(str):
    """A cell without a value."""


NULL = _Null("-")


class TextTable:
    """A heading and rows; a column is right-aligned if all its cells are numbers. `kept`: headings of columns that are
    shown on every screen, even if they are empty; `minor`: of those that a narrow screen leaves out, if that is
    enough. `left_out`: those that the last lines() left out."""

    def __init__(self, headings: Sequence[str], kept: Collection[str] = (), minor: Collection[str] = ()) -> None:
        self.headings = list(headings)
        self.kept = kept
        self.minor = minor
        self.left_out: list[str] = []
        self.rows: list[list[str | int]] = []

    def add(self, row: Sequence[str | int]) -> None:
        """Adds a row, with a cell for each heading: a number, text, text in Pieces, or NULL."""
        self.rows.append(list(row))

    def lines(self, width: int | None = None) -> list[str]:
        """The heading and the rows. With a width, in a form whose lines fit it if the longest cell does."""
        columns = [self._column(index) for index in range(len(self.headings))]
        if width is None or _total(column.natural for column in columns) <= width:
            return _aligned(columns, [column.natural for column in columns])
        named = zip(self.headings, columns, strict=True)
        columns = [column for heading, column in named if column.says_something or heading in self.kept] or columns
        major = list(columns)
        for last in [None, *(column for column in reversed(columns) if column.heading in self.minor)]:
            major = [column for column in major if column is not last]
            if lines := _in_one_line(major, width):
                self.left_out = [column.heading for column in columns if column not in major]
                return lines
        return _in_some_lines(columns, width) or _blocks(columns, width)

    def _column(self, index: int) -> _Column:
        cells = [row[index] for row in self.rows]
        return _Column(heading_words(self.headings[index]), list(map(_shown, cells)), cells)


class _Column:
    """A heading, and the cells below it as shown."""

    def __init__(self, heading: Pieces, cells: Sequence[str], values: Sequence[str | int]) -> None:
        self.heading = heading
        self.cells = cells
        known = [value for value in values if value is not NULL and value != "-"]
        self.is_numeric = bool(known) and all(isinstance(value, int) for value in known)
        self.says_something = not values or any(value is not NULL for value in values)
        self.natural = max(display_width(text) for text in (heading, *cells))
        self.least = max(narrowest(text) for text in (heading, *cells))
        if any(isinstance(cell, Pieces) for cell in cells):
            self.least = min(self.natural, max(self.least, _NARROWEST_TEXT))


def _shown(value: str | int) -> str:
    """The cell with control characters spelled out, with the same pieces."""
    return Pieces(map(printable, value.pieces)) if isinstance(value, Pieces) else cell_text(str(value))


def _total(widths: Iterable[int]) -> int:
    """The sum of the widths and of the gaps between them."""
    return sum(width + len(_GAP) for width in widths) - len(_GAP)


def _in_one_line(columns: Sequence[_Column], width: int) -> list[str]:
    """Aligned columns, with sentences wrapped; an empty list if rows do not fit, or would be too high."""
    widths = _widths(columns, width)
    if _total(widths) > width:
        return []
    rooms = zip(columns, widths, strict=True)
    highest = max((len(filled(cell, room)) for column, room in rooms for cell in column.cells), default=0)
    return _aligned(columns, widths) if highest <= _HIGHEST_ROW else []


def _in_some_lines(columns: Sequence[_Column], width: int) -> list[str]:
    """As many columns in each line of a row as fit; an empty list if that takes too many lines, or if one column is too
    wide."""
    inner = width - len(_INDENT)
    if max(column.least for column in columns) > inner:
        return []
    parts = _parts(columns, inner, [max(column.least, display_width(column.heading)) for column in columns])
    if len(parts) > _HIGHEST_ROW:
        parts = _parts(columns, inner, [column.least for column in columns])
    if len(parts) > _HIGHEST_ROW:
        return []
    rows_of_parts = [list(_aligned_rows(part, _widths(part, inner))) for part in parts]
    indents = ["", *[_INDENT] * (len(parts) - 1)]
    return [
        indent + line
        for row in zip(*rows_of_parts, strict=True)
        for indent, lines in zip(indents, row, strict=True)
        for line in lines
    ]


def _parts(columns: Sequence[_Column], width: int, rooms: Sequence[int]) -> list[list[_Column]]:
    """The columns in order, split into lines of that width. `rooms`: the width of each column."""
    parts: list[list[_Column]] = [[]]
    taken = 0
    for column, room in zip(columns, rooms, strict=True):
        if parts[-1] and taken + room > width:
            parts.append([])
            taken = 0
        parts[-1].append(column)
        taken += room + len(_GAP)
    return parts


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """The width of each column: its minimum, and an equal share of the rest for all that need more."""
    widths = [column.least for column in columns]
    for _ in range(width - _total(widths)):
        wanting = [index for index, column in enumerate(columns) if widths[index] < column.natural]
        if not wanting:
            break
        widths[min(wanting, key=widths.__getitem__)] += 1
    return widths


def _aligned(columns: Sequence[_Column], widths: Sequence[int]) -> list[str]:
    return [line for lines in _aligned_rows(columns, widths) for line in lines]


def _aligned_rows(columns: Sequence[_Column], widths: Sequence[int]) -> Iterator[list[str]]:
    """The lines of the heading, then of each row."""
    right = [column.is_numeric for column in columns]
    yield side_by_side([column.heading for column in columns], widths, right, _GAP)
    for row in zip(*(column.cells for column in columns), strict=True):
        yield side_by_side(row, widths, right, _GAP)


def _blocks(columns: Sequence[_Column], width: int) -> list[str]:
    """A block of lines for each row, with a blank line between two blocks; without rows only the headings."""
    if not columns[0].cells:
        headings = [[*column.heading.pieces[:-1], column.heading.pieces[-1] + _GAP] for column in columns]
        return filled(Pieces(piece for pieces in headings for piece in pieces), width)
    room = max(display_width(column.heading) for column in columns)
    lines: list[str] = []
    for number in range(len(columns[0].cells)):
        lines += [""] if lines else []
        for column in columns:
            lines += _block_line(column.heading, column.cells[number], room, width)
    return lines


def _block_line(heading: Pieces, cell: str, room: int, width: int) -> list[str]:
    """A heading and its cell; a cell that does not fit beside the heading is below it."""
    beside = width - room - len(_GAP)
    if narrowest(cell) <= beside:
        return side_by_side([heading, cell], [room, beside], [False, False], _GAP)
    indent = _GAP if narrowest(cell) <= width - len(_GAP) else ""
    return [*filled(heading, width), *(indent + line for line in filled(cell, width - len(indent)))]


# Bold, if it helps and is wanted; nothing on the screen depends on it.


OWN_MARKS = re.compile("(\x1b\\[[01]m)")


@dataclass(frozen=True)
class Style:
    """Marks text for a terminal, or returns it unchanged."""

    is_on: bool

    @classmethod
    def of(cls, out: TextIO) -> Style:
        """On for a terminal that supports marks, unless NO_COLOR is set (no-color.org)."""
        return cls(out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def heading(self, text: str) -> str:
        text = printable(text)  # so that names cannot contain marks
        return f"\x1b[1m{text}\x1b[0m" if self.is_on and text else text
