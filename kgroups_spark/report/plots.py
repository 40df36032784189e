"""Plots as static SVG, by Vega-Lite without a browser.

The page may be dark: its style then replaces each colour of DARK in a drawing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import vl_convert

from kgroups_spark.report.queries import Row

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
# Each colour, and its replacement on a dark page.
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
_ROOM_OF_A_DATE = 52  # pixels below the bars
_FEW_BARS = 8
_MOST_STEPS = 5  # on the axis of numbers
PARTIAL = 0.45  # the opacity of a bar whose day is not complete
# Vega's expressions for the texts of labels.
_DAY_AND_MONTH = "utcFormat(toDate(datum.value), '%-d %b')"
_SHORT_NUMBER = "format(datum.value, '~s')"

Chart = dict[str, Any]  # in the language of Vega-Lite
Series = Sequence[tuple[str, str]]  # names with their colours, the first at the bottom


@dataclass(frozen=True)
class Axes:
    """The titles of a plot's axes, and the words of a bar: `1 offset`, `2 offsets`; `noun` None: it has one series."""

    x: str
    y: str
    noun: str | None


def days_chart(
    rows: Sequence[Row], series: Series, axes: Axes, first: datetime, days: int, partial: Mapping[datetime, str]
) -> Chart:
    """Bars for `days` days from the first on, of rows with `day`, `series`, `value`.

    `partial`: the days of which the log has only a part, with that part; their bars are pale.
    """
    shown = [first + timedelta(days=number) for number in range(days)]
    names = [_day_name(day) for day in shown]
    heights = Counter[datetime]()
    for row in rows:
        heights[row["day"]] += row["value"]
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
    labels = [_day_name(day) for day in labelled_days(shown, heights)]
    axis = {"values": labels, "labelAngle": 0, "labelOverlap": False, "grid": False, "labelExpr": _DAY_AND_MONTH}
    scale = {"domain": names, "paddingInner": 0.1, "paddingOuter": 0.05}
    x = {"field": "at", "type": "ordinal", "scale": scale, "title": axes.x, "axis": axis}
    return _stacked_bars(values, series, x, axes.y)


def labelled_days(shown: Sequence[datetime], heights: Mapping[datetime, float]) -> list[datetime]:
    """The days whose dates have room below the bars. If there are few bars, all of them, the highest first; otherwise
    every n-th day, up to the last."""
    apart = -(-_ROOM_OF_A_DATE * len(shown) // _WIDTH)
    bars = [day for day in shown if heights.get(day)]
    if len(bars) > _FEW_BARS:
        return list(shown[::-1][::apart][::-1])
    labelled: list[datetime] = []
    for day in [*sorted(bars, key=lambda each: -heights[each]), shown[0], shown[-1]]:
        if all(abs((day - other).days) >= apart for other in labelled):
            labelled.append(day)
    return sorted(labelled)


def numbered_chart(rows: Sequence[Row], series: Series, axes: Axes) -> Chart:
    """Bars for rows with `at` (an ordinal, in the rows' order), `series`, `value`."""
    at = list(dict.fromkeys(row["at"] for row in rows))
    values = [{**row, "opacity": 1, "says": _says(f"{axes.x} {row['at']}", row, axes)} for row in rows]
    axis = {"labelAngle": 0, "labelOverlap": True, "grid": False}
    x = {"field": "at", "type": "nominal", "sort": at, "title": axes.x, "axis": axis}
    return _stacked_bars(values, series, x, axes.y)


def _says(where: str, row: Row, axes: Axes, part: str | None = None) -> str:
    """The words of a bar: `16 Nov 2026, until 06:41 UTC: 4 offsets, due now`."""
    value = f"{row['value']:,.1f}" if isinstance(row["value"], float) else f"{row['value']:,}"
    what = f"{value} {row['series']}"
    if axes.noun is not None:
        what = f"{value} {axes.noun}{'' if row['value'] == 1 else 's'}, {row['series']}"
    return f"{where}{f', {part}' if part else ''}: {what}"


def _stacked_bars(values: list[Row], series: Series, x: dict[str, Any], title: str) -> Chart:
    names = [name for name, _ in series]
    order = {name: number for number, name in enumerate(names)}
    heights = Counter[str]()
    for value in values:
        heights[value["at"]] += value["value"]
    ticks = ticks_up_to(max(heights.values(), default=0))
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
                "scale": {"domain": [0, ticks[-1]], "nice": False},
                "axis": {"values": ticks, "labelExpr": _SHORT_NUMBER},
            },
            "color": {"field": "series", "type": "nominal", "scale": colors, "legend": None},
            "opacity": {"field": "opacity", "type": "quantitative", "scale": None, "legend": None},
            "description": {"field": "says", "type": "nominal"},
            "order": {"field": "order", "type": "quantitative"},
        },
        "width": _WIDTH,
        "height": _HEIGHT,
    }


def ticks_up_to(highest: float) -> list[float]:
    """Whole numbers from 0 on, six at most; the last is not below the highest bar."""
    if highest <= 0:
        return [0, 1]
    size = 10 ** max(0, math.floor(math.log10(highest / _MOST_STEPS)))
    step = next(size * factor for factor in (1, 2, 5, 10, 20) if size * factor * _MOST_STEPS >= highest)
    return [number * step for number in range(math.ceil(highest / step) + 1)]


def svg(chart: Chart) -> str:
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
