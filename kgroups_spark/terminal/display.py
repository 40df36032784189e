"""The width of a text on a terminal, in columns, and where it may break: never inside a word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import zip_longest

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
