"""Columns, tables and plots that several parts of the page have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kgroups_spark.report.figures import Plot
from kgroups_spark.report.plots import Axes, days_chart, svg
from kgroups_spark.report.queries import Row, query

Answers = Mapping[str, Sequence[Row]]  # rows by query
DAYS = 30
DAY, AS_EACH_DAY_ENDED = "day (UTC)", "as each day ended"
OFFSETS_BY_DAY = Axes(DAY, "offsets", "offset")
# Tables with a row for each group have up to 5,000 of them; all tables together stay below 4 MB.
ALL_GROUPS_BYTES, GROUPS_BYTES = 900_000, 550_000


def days_to_come_plot(answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any) -> Plot:
    """The days from that of the audit on, up to the last bar, at least a week, or up to the end of the year 9999. There
    may be no bar."""
    first = day_of(answers["lake"][0]["as_of"])
    days = max([7, *((row["day"] - first).days + 1 for row in rows)])
    days = min(days, (datetime.max.replace(tzinfo=first.tzinfo) - first).days + 1)
    chart = days_chart(rows, series, OFFSETS_BY_DAY, first, days, {})
    return Plot(name, caption, svg(chart), legend_of(rows, series), query(name))


def last_days_plot(
    answers: Answers, name: str, caption: str, rows: Sequence[Row], series: Any, asked: str, noun: str
) -> Plot:
    """The days up to that of the audit, from the log's first on; the queries begin at the time of day of `as_of`. The
    log may begin after that day (--as-of)."""
    as_of = answers["lake"][0]["as_of"]
    begins = max(as_of - timedelta(days=DAYS), answers["lake"][0]["traffic_begins"] or as_of)
    last = day_of(as_of)
    first = min(last, day_of(begins))
    partial = {last: f"until {as_of:%H:%M} UTC"}
    if not caption.endswith(AS_EACH_DAY_ENDED) and first < begins and first != last:
        partial[first] = f"from {begins:%H:%M} UTC"
    chart = days_chart(rows, series, Axes(DAY, f"{noun}s", noun), first, (last - first).days + 1, partial)
    return Plot(name, caption, svg(chart), legend_of(rows, series), query(asked), _note_on_pale_bars(rows, partial))


def _note_on_pale_bars(rows: Sequence[Row], partial: Mapping[datetime, str]) -> str:
    """Empty if no bar is pale."""
    pale = sorted(partial.keys() & {row["day"] for row in rows})
    parts = " and ".join(f"{day:%-d %b} ({partial[day]})" for day in pale)
    return f"Pale: {parts} {'is not a whole day' if len(pale) == 1 else 'are not whole days'}." if pale else ""


def legend_of(rows: Sequence[Row], series: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The series that have a bar; a single one needs no legend, so the list is empty."""
    names = {row["series"] for row in rows}
    drawn = [(name, color) for name, color in series if name in names]
    return drawn if len(drawn) > 1 else []


def day_of(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
