"""Columns of text for a screen: aligned, as wide as they must be and no wider than the screen."""

import unicodedata
from collections.abc import Sequence

_GAP = "  "
_NARROWEST = 8  # a column that is cut keeps at least this much


class TextTable:
    """A heading and rows; a column is right-aligned if all its cells are numbers."""

    def __init__(self, headings: Sequence[str]) -> None:
        self.headings = list(headings)
        self.rows: list[list[str | int]] = []

    def add(self, row: Sequence[str | int]) -> None:
        """One more row, with a cell for each heading."""
        self.rows.append(list(row))

    def lines(self, width: int | None = None) -> list[str]:
        """The heading and the rows; with a width, the widest columns are cut (`…`) until a line fits."""
        cells = [self.headings] + [[printable(str(cell)) for cell in row] for row in self.rows]
        widths = [max(display_width(line[index]) for line in cells) for index in range(len(self.headings))]
        _shrink(widths, width)
        numeric = [self._is_numeric(index) for index in range(len(self.headings))]
        return [
            _GAP.join(_fit(cell, room, right) for cell, room, right in zip(line, widths, numeric, strict=True)).rstrip()
            for line in cells
        ]

    def _is_numeric(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index] != "-"]
        return bool(cells) and all(isinstance(cell, int) for cell in cells)


def _shrink(widths: list[int], width: int | None) -> None:
    """Takes from the widest column until the line fits, or until nothing is left to take."""
    if width is None:
        return
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _fit(text: str, width: int, right: bool) -> str:
    if display_width(text) > width:
        while display_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (width - display_width(text))
    return padding + text if right else text + padding


def printable(text: str) -> str:
    """The text with control characters spelled out: names come from a log, and a terminal obeys what it is sent."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
