"""Plots of one group's history, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import altair as alt

from kgroups_spark.report.plots import RED, STATE_COLORS
from kgroups_spark.report.queries import Row

_WIDTH = 620


def states_chart(rows: Sequence[Row], until: datetime) -> alt.Chart:
    """Bars for rows of the query `states`: in which state the group was, and with which type; the last `until` then."""
    spans = [
        {
            "from": _milliseconds(row["valid_from"]),
            "to": _milliseconds(row["valid_to"] or until),
            "state": row["state"],
            "type": row["group_type"],
            "members": row["member_count"],
        }
        for row in rows
        if row["valid_from"] is not None
    ]
    states = [state for state in STATE_COLORS if any(span["state"] == state for span in spans)]
    colors = alt.Scale(domain=states, range=[STATE_COLORS[state] for state in states])
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=spans))
        .mark_bar(height=14)
        .encode(
            x=_time("from"),
            x2="to",
            y=alt.Y("type:N", title=None),
            color=alt.Color("state:N", scale=colors, title=None),
            tooltip=["state:N", "members:Q"],
        )
        .properties(width=_WIDTH)
    )
    return chart


def offsets_chart(rows: Sequence[Row], marked: Sequence[datetime] = ()) -> alt.LayerChart | alt.FacetChart:
    """Steps for rows of the query `offsets`, a line a partition; a rule at each moment that is marked."""
    steps = [
        {
            "at": _milliseconds(row["effective_timestamp"]),
            "offset": row["committed_offset"],
            "partition": f"{row['topic']}-{row['partition']}",
        }
        for row in rows
    ]
    lines = (
        alt.Chart(alt.InlineData(values=steps))
        .mark_line(interpolate="step-after", point=True)
        .encode(
            x=_time("at"),
            y=alt.Y("offset:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(format=",d")),
            color=alt.Color("partition:N", title=None),
        )
    )
    rules = (
        alt.Chart(alt.InlineData(values=[{"at": _milliseconds(moment)} for moment in marked]))
        .mark_rule(color=RED, strokeDash=[4, 3])
        .encode(x=_time("at"))
    )
    return alt.layer(lines, rules).properties(width=_WIDTH, height=260)


def _time(field: str) -> alt.X:
    return alt.X(
        f"{field}:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(format="%-d %b %H:%M", tickCount=7)
    )


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
