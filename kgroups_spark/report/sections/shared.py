"""Columns, tables and plots that several parts of the page have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kgroups_spark.report.figures import Column, Plot
from kgroups_spark.report.plots import Axes, days_chart, svg
from kgroups_spark.report.queries import Row, query

Answers = Mapping[str, Sequence[Row]]  # rows by query
DAYS = 30
DAY, AS_EACH_DAY_ENDED = "day (UTC)", "as each day ended"
OFFSETS_BY_DAY = Axes(DAY, "offsets", "offset")
GROUP = Column("group_id", "Group")
TYPE = Column("group_type", "Type", is_minor=True)
STATE = Column("state", "State", is_minor=True)
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
    """The days up to that of the audit, from the log's first on. The log may begin after that day (--as-of)."""
    lake = answers["lake"][0]
    last = day_of(lake["as_of"])
    first = min(last, max(last - timedelta(days=DAYS), day_of(lake["traffic_begins"] or last)))
    partial = {last: f"until {lake['as_of']:%H:%M} UTC"}
    if not caption.endswith(AS_EACH_DAY_ENDED) and lake["traffic_begins"] not in (None, first) and first not in partial:
        partial[first] = f"from {lake['traffic_begins']:%H:%M} UTC"
    chart = days_chart(rows, series, Axes(DAY, f"{noun}s", noun), first, (last - first).days + 1, partial)
    return Plot(name, caption, svg(chart), legend_of(rows, series), query(asked), _partial_note(partial))


def _partial_note(partial: Mapping[datetime, str]) -> str:
    parts = " and ".join(f"{day:%-d %b} ({part})" for day, part in sorted(partial.items()))
    return f"Pale: {parts} {'is not a whole day' if len(partial) == 1 else 'are not whole days'}."


def legend_of(rows: Sequence[Row], series: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The series that have a bar; a single one needs no legend, so the list is empty."""
    names = {row["series"] for row in rows}
    drawn = [(name, color) for name, color in series if name in names]
    return drawn if len(drawn) > 1 else []


def day_of(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
