"""Plots as static SVG, by Altair and Vega without a browser.

A page's reader may have it dark: the page's style replaces each colour of DARK where it stands in a drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import altair as alt
import vl_convert

from kgroups_spark.report.queries import Row

BLUE, AMBER, RED, GREEN, GREY, PURPLE = "#33658a", "#d08c45", "#b23a48", "#5b8c5a", "#a3a8b0", "#6d597a"
PALE_BLUE, TEXT, GRID = "#a9c6dc", "#4a4f57", "#e3e5e8"
# Of Kafka's states of groups, the usual ones first: they stand at the bottom.
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
# Each colour, and what stands for it where the page is dark.
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
# Wide enough for two beside each other on a screen, narrow enough for its letters to be read on a phone.
_WIDTH, _HEIGHT, _LETTERS = 440, 170, 12

Series = Sequence[tuple[str, str]]  # names with their colours, the first at the bottom


def days_chart(rows: Sequence[Row], series: Series, first: datetime, days: int) -> alt.Chart:
    """Bars for `days` days from the first on, of rows with `day`, `series`, `value`."""
    shown = [first + timedelta(days=number) for number in range(days)]
    x = alt.X(
        "day:T",
        timeUnit="utcyearmonthdate",
        title=None,
        scale=alt.Scale(type="utc", domain=[_milliseconds(shown[0]), _milliseconds(shown[-1] + timedelta(days=1))]),
        axis=alt.Axis(format="%-d %b", tickCount=6, labelOverlap=True, grid=False),
    )
    values = [row | {"day": _milliseconds(row["day"])} for row in rows]
    return _stacked_bars(values, series, x)


def numbered_chart(rows: Sequence[Row], series: Series) -> alt.Chart:
    """Bars for rows with `at` (an ordinal, in the rows' order), `series`, `value`."""
    at = list(dict.fromkeys(row["at"] for row in rows))
    x = alt.X("at:N", sort=at, title=None, axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    return _stacked_bars(list(rows), series, x)


def _stacked_bars(values: list[Row], series: Series, x: alt.X) -> alt.Chart:
    names = [name for name, _ in series]
    order = {name: number for number, name in enumerate(names)}
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=[value | {"order": order[value["series"]]} for value in values]))
        .mark_bar()
        .encode(
            x=x,
            y=alt.Y("value:Q", title=None, stack="zero", axis=alt.Axis(format="~s", tickCount=4)),
            color=alt.Color(
                "series:N", scale=alt.Scale(domain=names, range=[color for _, color in series]), legend=None
            ),
            order=alt.Order("order:Q"),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )
    return chart


def svg(chart: Any) -> str:
    """The drawing."""
    specification = chart.to_dict() | {"config": _CONFIG, "background": None}
    specification["autosize"] = {"type": "fit-x", "contains": "padding"}
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawing: str = vl_convert.vegalite_to_svg(specification, vl_version=version)
    return drawing


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


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
    },
    "view": {"stroke": None},
}
