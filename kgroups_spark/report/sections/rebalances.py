"""Rebalances by day and cause, the groups that have most, and the slowest members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Plot, Section, Table, table
from kgroups_spark.report.plots import AMBER, BLUE, GREY, PURPLE
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import DAYS, Answers, last_days_plot
from kgroups_spark.report.words import OTHER_REBALANCE, REBALANCES


def rebalances_section(answers: Answers) -> Section:
    by_day, groups, members = (answers[name] for name in ("rebalances_by_day", "rebalancing_groups", "slowest_members"))
    if not by_day:
        return Section("rebalances", "Rebalances", [f"No group rebalanced in the {DAYS} days before the audit."])
    counts: Counter[tuple[datetime, str]] = Counter()
    for row in by_day:
        counts[row["day"], REBALANCES.get(row["cause"], OTHER_REBALANCE)] += row["rebalances"]
    bars = [{"day": day, "series": name, "value": value} for (day, name), value in counts.items()]
    series = list(zip([*REBALANCES.values(), OTHER_REBALANCE], (BLUE, AMBER, PURPLE, GREY), strict=True))
    sentences = [
        f"{counted(counts.total(), 'rebalance')} in the {DAYS} days before the audit. Durations are known only for "
        "consumer, share and streams groups: the log does not show when a rebalance of a classic group began."
    ]
    group_columns = (
        "group_id Group; group_type- Type; rebalances Rebalances :count; superseded- Cut short by the next :count; "
        "longest_s Longest (s) :rate; newest- The newest (UTC) :time"
    )
    member_columns = (
        "group_id Group; client_id Client id; slowest_member_id- Member id; times_last Times last :count; "
        "longest_s Longest (s) :rate; newest- The newest (UTC) :time"
    )
    caption = "Rebalances by day and cause"
    figures: list[Table | Plot] = [
        last_days_plot(answers, "rebalances_by_day", caption, bars, series, "rebalances_by_day", "rebalance"),
        table("rebalancing_groups", "The groups that rebalanced most (50 at most)", group_columns, _in_seconds(groups)),
    ]
    if members:
        caption = "The slowest members: the last of their group to reach a new epoch, the longest first (50 at most)"
        figures.append(table("slowest_members", caption, member_columns, _in_seconds(members)))
    return Section("rebalances", "Rebalances", sentences, figures)


def _in_seconds(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "longest_s": None if row["longest_ms"] is None else row["longest_ms"] / 1000} for row in rows]
