"""Answers as a page shows them: tables of cells, and plots, each with its SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from kgroups_spark.package_data import names_in_package, package_text
from kgroups_spark.words import cell_text, format_time_for_people, printable, sized

Row = dict[str, Any]
# A query's rows: times as UTC datetimes, lists as lists.
Ask = Callable[[str], list[Row]]

NAMES = tuple(names_in_package("report/queries", ".sql"))
GROUP_NAMES = tuple(names_in_package("report/group_queries", ".sql"))


def query(name: str) -> str:
    """The text of one of NAMES. Raises FileNotFoundError for any other."""
    return _file(name)[1].strip()


def _file(name: str) -> tuple[str, str]:
    """The head of a query's file, and the query below it. The head has the caption of its table, and its columns:
    `topic Topic; lag- Lag :count; detail! Why`: a minor one has -, a detail !. Other figures have no head."""
    head, _, text = package_text(f"report/queries/{name}.sql").rpartition("\n\n")
    return head.replace("-- ", ""), text


def group_query(name: str) -> str:
    """The text of one of GROUP_NAMES, of :group_id; `offsets` and `rewound` also of :since, :until."""
    return package_text(f"report/group_queries/{name}.sql").strip()


# `text`: unchanged; `time`: in UTC to the second; `count`: a whole number; `rate`: one decimal; `bytes`: with a unit.
Kind = Literal["text", "time", "count", "rate", "bytes"]
Cell = str | int | float | None

ROWS_SHOWN = 10  # of each table, until the reader opens the rest
LONGEST_WORD = 24  # characters without a blank or hyphen that stay on one line
BUDGET_BYTES = 300_000  # of a table's rows in the page, to keep it below 5 MB


@dataclass(frozen=True)
class Column:
    """A column. A narrow screen lacks a minor one; `is_detail`: its sentences have a line of their own there."""

    name: str
    heading: str
    kind: Kind = "text"
    is_minor: bool = False
    is_detail: bool = False

    @property
    def classes(self) -> str:
        marks = ["detail"] * self.is_detail + ["minor"] * self.is_minor
        return " ".join(["number" if self.kind in ("count", "rate", "bytes") else self.kind, *marks])


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
    rows: Iterable[Row],
    *,
    columns: Sequence[Column] = (),
    budget_bytes: int = BUDGET_BYTES,
    is_small: bool = False,
) -> Table:
    """A table of the query `name`: the first rows that fit into the budget. `columns`: instead of the file's."""
    from jinja2.utils import htmlsafe_json_dumps  # of the extra [report]

    caption, _, named = _file(name)[0].partition("\n")
    columns = columns or [*map(_column, named.replace("\n", " ").split("; "))]
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


# A word that must break, or the table would be wider than a phone. report.js has the same rule.
LONG_WORD = re.compile(rf"[^\s-]{{{LONGEST_WORD + 1},}}")


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


BLUE, AMBER, RED, GREEN, GREY, PURPLE = "#33658a", "#d08c45", "#b23a48", "#5b8c5a", "#a3a8b0", "#6d597a"
PALE_BLUE, TEXT, GRID = "#a9c6dc", "#4a4f57", "#e3e5e8"
# Kafka's states of groups. The usual ones come first and are drawn at the bottom.
STATE_COLORS = {
    "Stable": BLUE,
    "Empty": GREY,
    "Assigning": PURPLE,
    "Reconciling": AMBER,
    "NotReady": GREEN,
    "PreparingRebalance": AMBER,
    "CompletingRebalance": PURPLE,
    "Dead": RED,
}
# Each colour, and its replacement in a drawing on a dark page, by the page's style.
DARK = {
    BLUE: "#7fb2d9",
    AMBER: "#dba36a",
    RED: "#e5737f",
    GREEN: "#86b985",
    GREY: "#757b85",
    PURPLE: "#b39bc4",
    PALE_BLUE: "#3d5c76",
    TEXT: "#b4b9c2",
    GRID: "#33373d",
}
# Wide enough for two side by side on a screen, narrow enough for its letters to be readable on a phone.
_WIDTH, _HEIGHT, _LETTERS = 440, 170, 12
PARTIAL = 0.45  # the opacity of a bar whose day is not complete
# Vega's expressions for the texts of labels.
_DAY_AND_MONTH = "utcFormat(toDate(datum.value), '%-d %b')"
_SHORT_NUMBER = "datum.value % 1 ? '' : format(datum.value, '~s')"

Chart = dict[str, Any]  # in the language of Vega-Lite
Series = Sequence[tuple[str, str]]  # names with their colours, the first at the bottom


@dataclass(frozen=True)
class Axes:
    """The titles of a plot's axes, and the words of a bar: `1 offset`, `2 offsets`."""

    x: str
    y: str
    noun: str


def days_chart(
    rows: Sequence[Row], series: Series, axes: Axes, first: datetime, days: int, partial: Mapping[datetime, str]
) -> Chart:
    """Bars for `days` days from the first on, of rows with `day`, `series`, `value`; pale ones for days of which the
    log has only a part (`partial`)."""
    shown = [first + timedelta(days=number) for number in range(days)]
    names = [_day_name(day) for day in shown]
    values = [
        {
            **row,
            "at": _day_name(row["day"]),
            "opacity": PARTIAL if row["day"] in partial else 1,
            "says": _says(f"{row['day']:%-d %b %Y}", row, axes, partial.get(row["day"])),
            "day": None,
        }
        for row in rows
        if row["day"] in shown
    ]
    axis = {"labelAngle": 0, "labelOverlap": True, "grid": False, "labelExpr": _DAY_AND_MONTH}
    scale = {"domain": names, "paddingInner": 0.1, "paddingOuter": 0.05}
    x = {"field": "at", "type": "ordinal", "scale": scale, "title": axes.x, "axis": axis}
    return _stacked_bars(values, series, x, axes.y)


def numbered_chart(rows: Sequence[Row], series: Series, axes: Axes) -> Chart:
    """Bars for rows with `at` (an ordinal, in the rows' order), `series`, `value`."""
    at = list(dict.fromkeys(row["at"] for row in rows))
    values = [{**row, "opacity": 1, "says": _says(f"{axes.x} {row['at']}", row, axes)} for row in rows]
    axis = {"labelAngle": 0, "labelOverlap": True, "grid": False}
    x = {"field": "at", "type": "nominal", "sort": at, "title": axes.x, "axis": axis}
    return _stacked_bars(values, series, x, axes.y)


def _says(where: str, row: Row, axes: Axes, part: str | None = None) -> str:
    """The words of a bar: `16 Nov 2026, until 06:41 UTC: 4 offsets, due now`."""
    what = f"{row['value']:,} {axes.noun}{'' if row['value'] == 1 else 's'}, {row['series']}"
    return f"{where}{f', {part}' if part else ''}: {what}"


def _stacked_bars(values: list[Row], series: Series, x: dict[str, Any], title: str) -> Chart:
    names = [name for name, _ in series]
    order = {name: number for number, name in enumerate(names)}
    colors = {"domain": names, "range": [color for _, color in series]}
    return {
        "data": {"values": [value | {"order": order[value["series"]]} for value in values]},
        "mark": {"type": "bar"},
        "encoding": {
            "x": x,
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": title,
                "stack": "zero",
                "axis": {"tickCount": 5, "tickMinStep": 1, "labelExpr": _SHORT_NUMBER},
            },
            "color": {"field": "series", "type": "nominal", "scale": colors, "legend": None},
            "opacity": {"field": "opacity", "type": "quantitative", "scale": None, "legend": None},
            "description": {"field": "says", "type": "nominal"},
            "order": {"field": "order", "type": "quantitative"},
        },
        "width": _WIDTH,
        "height": _HEIGHT,
    }


def svg(chart: Chart) -> str:
    import vl_convert  # of the extra [report]

    autosize = {"type": "fit-x", "contains": "padding"}
    drawing: str = vl_convert.vegalite_to_svg(chart | {"config": _CONFIG, "background": None, "autosize": autosize})
    return drawing


def _day_name(day: datetime) -> str:
    return f"{day:%Y-%m-%d}"


_CONFIG = {
    "font": "sans-serif",
    "axis": {
        "labelColor": TEXT,
        "labelFontSize": _LETTERS,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "titleColor": TEXT,
        "titleFontSize": _LETTERS,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    "view": {"stroke": None},
}


MOVES = ("offset_rewound", "offset_restarted", "offset_skipped")
# The usual causes of rebalances.
REBALANCES = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "members_changed": "members joined and left",
}
OTHER_REBALANCE = "another cause"
# Events of transactional ids.
ABORTS = {
    "transaction_timed_out": "open for longer than its timeout",
    "producer_fenced": "its producer was fenced",
}


def counted_from(row: Row) -> str:
    """From when an offset's retention counts. `row`: of offset_expiry or expiring_groups, with its group's state."""
    if row["base"] == "expire_timestamp":
        return "the commit itself set the time"
    since = "?" if row["base_timestamp"] is None else format_time_for_people(row["base_timestamp"])[:16]
    if row["reason"] == "orphan":
        return f"no such group; committed {since}"
    if row["base"] == "current_state_timestamp":
        return f"{row['state']} since {since}"
    if row["state"] not in ("Empty", "Dead", None):
        return f"not subscribed to; committed {since}"
    return f"committed {since}"
