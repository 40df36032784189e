"""Groups by type and state, now and as each day ended, their migration to KIP-848, and each by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Column, Plot, Section, Table, table
from kgroups_spark.report.plots import BLUE, GREEN, GREY, PURPLE, STATE_COLORS
from kgroups_spark.report.queries import Row
from kgroups_spark.report.sections.shared import (
    ALL_GROUPS_BYTES,
    AS_EACH_DAY_ENDED,
    Answers,
    day_of,
    last_days_plot,
)


def groups_section(answers: Answers) -> Section:
    if not answers["groups_now"] and not answers["groups_by_day"]:
        return Section("groups", "Groups", ["The log has no groups."])
    now = answers["groups_now"]
    states = sorted({row["state"] for row in now if row["state"] is not None})
    by_type: dict[str, Row] = {}
    for row in now:
        group_type = by_type.setdefault(row["group_type"], {"group_type": row["group_type"]})
        group_type[row["state"] or "total"] = row["group_count"]
    crosstab = [dict.fromkeys(states) | row for row in by_type.values()]
    crosstab_columns = [
        Column("group_type", "Type"),
        *(Column(state, state, "count") for state in states),
        Column("total", "All", "count"),
    ]
    state_bars = _by_day(answers, "state")
    columns = (
        "group_id Group; group_type Type; state State; state_since- Since (UTC) :time; member_count- Members :count; "
        "offsets Offsets :count; expires_at- First expires (UTC) :time; offsets_partition- Offsets partition :count"
    )
    figures: list[Table | Plot] = []
    if now:
        figures.append(
            table("groups_now", "Groups by type and state, as of the audit", crosstab_columns, crosstab, is_small=True)
        )
    if state_bars:
        states = list(dict.fromkeys(row["series"] for row in sorted(state_bars, key=_state_order)))
        series = [(state, STATE_COLORS.get(state, GREY)) for state in states]
        caption = f"Groups by state, {AS_EACH_DAY_ENDED}"
        figures.append(last_days_plot(answers, "states_by_day", caption, state_bars, series, "groups_by_day", "group"))
    if now:
        caption = "All groups"
        rows = answers["all_groups"]
        figures.append(table("all_groups", caption, columns, rows, budget_bytes=ALL_GROUPS_BYTES))
    sentence = f"{counted(answers['lake'][0]['group_count'], 'group')} when the log ended."
    return Section("groups", "Groups", [sentence], figures)


_TYPE_COLORS = {"classic": GREY, "consumer": BLUE, "share": GREEN, "streams": PURPLE}


def _state_order(row: Row) -> int:
    return [*STATE_COLORS, row["series"]].index(row["series"])


def _by_day(answers: Answers, by: str) -> list[Row]:
    """Groups by state or type at the end of each day; a day without records repeats the previous one."""
    counts: dict[datetime, dict[str, int]] = {}
    for row in answers["groups_by_day"]:
        of_day = counts.setdefault(row["day"], {})
        of_day[row[by]] = of_day.get(row[by], 0) + row["group_count"]
    if not counts:
        return []
    bars = []
    day, last = min(counts), day_of(answers["lake"][0]["as_of"])
    standing: dict[str, int] = {}
    while day <= last:
        standing = counts.get(day, standing)
        bars += [{"day": day, "series": name, "value": value} for name, value in standing.items()]
        day += timedelta(days=1)
    return bars


def each_group_sections(answers: Answers) -> list[Section]:
    if not answers["all_groups"] and not answers["newest_events"]:
        return []
    sentence = "Open a group for its committed offsets, the owners of their partitions and its newest events."
    return [Section("each-group", "Each group", [sentence], has_groups=True)]


def migration_section(answers: Answers) -> Section:
    heading = "Migration to the new protocol (KIP-848)"
    bars = _by_day(answers, "group_type")
    if not bars:
        return Section("migration", heading, ["There are no groups of either protocol."])
    now = {row["group_type"]: row["group_count"] for row in answers["groups_now"] if row["state"] is None}
    classic, consumer = now.get("classic", 0), now.get("consumer", 0)
    changes = answers["type_changes"]
    sentences = [f"{counted(classic, 'group')} with the classic protocol, {consumer:,} with the new one."]
    series = [(name, color) for name, color in _TYPE_COLORS.items() if any(bar["series"] == name for bar in bars)]
    caption = f"Groups by type, {AS_EACH_DAY_ENDED}"
    figures: list[Table | Plot] = [
        last_days_plot(answers, "types_by_day", caption, bars, series, "groups_by_day", "group"),
    ]
    if changes:
        columns = "event_timestamp When (UTC) :time; group_id Group; value_before From; value_after To"
        figures.append(
            table("type_changes", "Groups that changed their type, the newest first", columns, changes, is_small=True)
        )
    else:
        sentences.append("No group changed its type in the log.")
    return Section("migration", heading, sentences, figures)
