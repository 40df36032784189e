"""Answers as a page shows them: tables of cells, and plots, each with its SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from jinja2.utils import htmlsafe_json_dumps

from kgroups_spark.counts import sized
from kgroups_spark.escapes import cell_text, printable
from kgroups_spark.report.queries import Row, query
from kgroups_spark.times import format_time_for_people

# `text`: unchanged; `time`: in UTC to the second; `count`: a whole number; `rate`: one decimal; `bytes`: with a unit.
Kind = Literal["text", "time", "count", "rate", "bytes"]
Cell = str | int | float | None

ROWS_SHOWN = 10  # of each table, until the reader opens the rest
LONGEST_WORD = 24  # characters without a blank or hyphen that stay on one line
BUDGET_BYTES = 300_000  # of a table's rows in the page, to keep it below 5 MB


@dataclass(frozen=True)
class Column:
    """A column of a table. A minor one is left out on a narrow screen. `is_detail`: its texts are sentences, which have
    a line of their own there."""

    name: str
    heading: str
    kind: Kind = "text"
    is_minor: bool = False
    is_detail: bool = False

    @property
    def is_number(self) -> bool:
        return self.kind in ("count", "rate", "bytes")

    @property
    def classes(self) -> str:
        marks = ["detail"] * self.is_detail + ["minor"] * self.is_minor
        return " ".join(["number" if self.is_number else self.kind, *marks])


@dataclass(frozen=True)
class Table:
    """Rows of cells in the order of the columns. `left_out`: the number of rows of the answer that are not in it."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    left_out: int
    sql: str
    is_small: bool = False  # half as wide as the page

    @property
    def texts(self) -> list[list[str]]:
        return [[shown(cell, column.kind) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]

    @property
    def first_rows(self) -> list[list[str]]:
        """The rows that are visible at first, as texts."""
        return replace(self, rows=self.rows[:ROWS_SHOWN]).texts

    @property
    def has_detail(self) -> bool:
        return any(column.is_detail for column in self.columns)

    @property
    def is_long(self) -> bool:
        return len(self.rows) > ROWS_SHOWN


@dataclass(frozen=True)
class Plot:
    """A drawing and its contents in words. `legend`: its series with their colours; `note`: a further explanation."""

    name: str
    caption: str
    svg: str
    legend: Sequence[tuple[str, str]]
    sql: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page; without figures it consists of its sentences. `has_groups`: each group follows."""

    name: str
    heading: str
    sentences: Sequence[str]
    figures: Sequence[Table | Plot] = ()
    has_groups: bool = False

    @property
    def alone(self) -> list[str]:
        """The names of the figures of half a page that have nothing beside them."""
        found, beside = [], False
        for figure, after in zip(self.figures, [*self.figures[1:], None], strict=True):
            beside = _is_half(figure) and not beside
            if beside and not _is_half(after):
                found.append(figure.name)
        return found


def _is_half(figure: Table | Plot | None) -> bool:
    return isinstance(figure, Plot) or (figure is not None and figure.is_small)


def table(
    name: str,
    caption: str,
    columns: str | Sequence[Column],
    rows: Iterable[Row],
    *,
    budget_bytes: int = BUDGET_BYTES,
    is_small: bool = False,
) -> Table:
    """A table of the query `name`, with the first rows of the answer that fit into the budget. `columns`:
    `topic Topic; lag- Lag :count; detail! Why`: a minor one has -, a detail !."""
    columns = [*map(_column, columns.split("; "))] if isinstance(columns, str) else columns
    kept: list[list[Cell]] = []
    left_out = 0
    for row in rows:
        cells = [as_cell(row[column.name], is_name=not column.is_detail) for column in columns]
        budget_bytes -= len(htmlsafe_json_dumps(cells, ensure_ascii=False).encode())
        if budget_bytes < 0:
            left_out += 1
        else:
            kept.append(cells)
    return Table(name, caption, columns, kept, left_out, query(name), is_small)


def _column(text: str) -> Column:
    name, _, rest = text.partition(" ")
    heading, _, kind = rest.partition(" :")
    return Column(name.rstrip("-!"), heading, kind or "text", "-" in name, "!" in name)  # type: ignore[arg-type]


def as_cell(value: Any, *, is_name: bool = True) -> Cell:
    """A value of an answer as a cell: times as texts, texts without invisible characters, names as they can be typed.
    No name is cut; a table that is too large leaves out rows instead."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, datetime):
        return format_time_for_people(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return cell_text(str(value)) if is_name else printable(str(value))


_LONG_WORD = re.compile(rf"[^\s-]{{{LONGEST_WORD + 1},}}")


def has_long_word(text: str) -> bool:
    """Whether it has a word that must break, or the table would be wider than a phone. report.js has the same rule."""
    return _LONG_WORD.search(text) is not None


def shown(cell: Cell, kind: Kind) -> str:
    """A cell's text for people. report.js has the same rule."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if kind == "rate":
        return f"{cell:,.1f}"
    if kind == "bytes":
        return sized(int(cell))
    return f"{cell:,}"
