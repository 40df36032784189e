"""Committed offsets that expire: by day, under another retention, and of groups that would lose their members."""

from __future__ import annotations

from kgroups_spark.counts import counted, group_count
from kgroups_spark.durations import format_duration
from kgroups_spark.report.figures import Plot, Section, Table, table
from kgroups_spark.report.plots import BLUE, PALE_BLUE, RED, Axes, numbered_chart, svg
from kgroups_spark.report.queries import query
from kgroups_spark.report.sections.shared import (
    DAYS,
    GROUPS_BYTES,
    Answers,
    days_to_come_plot,
    legend_of,
)
from kgroups_spark.report.words import counted_from


def expiring_section(answers: Answers) -> Section:
    lake, soon = answers["lake"][0], answers["expiring_soon"][0]
    groups = answers["expiring_groups"]
    what_if = _what_if(answers)
    if not groups:
        nothing = (
            "No committed offset expires if things stay as they are."
            if soon["offsets"]
            else "There are no committed offsets."
        )
        return Section("expiring", "Expiring offsets by day", [nothing], what_if if soon["offsets"] else [])
    sentences = [
        f"If every group stays as it was at {lake['as_of']:%Y-%m-%d %H:%M} UTC, "
        f"{counted(soon['month_offsets'], 'offset')} of {counted(soon['month_groups'], 'group')} "
        f"expire within {DAYS} days."
    ]
    if soon["due_offsets"]:
        sentences.append(
            f"{counted(soon['due_offsets'], 'offset')}, already due, will be removed at the broker’s next check."
        )
    rows = [{**row, "counted_from": counted_from(row)} for row in groups]
    columns = (
        "group_id Group; group_type- Type; state- State; offsets Offsets :count; "
        "first_expires_at First expires (UTC) :time; last_expires_at- Last (UTC) :time; counted_from- Counted from"
    )
    by_day = [
        {"day": row["day"], "series": "due now" if row["is_due"] else "later", "value": row["offsets"]}
        for row in answers["expiring_by_day"]
    ]
    figures: list[Table | Plot] = [
        days_to_come_plot(
            answers,
            "expiring_by_day",
            f"Offsets that expire, by day, in the {DAYS} days after the audit",
            by_day,
            [("due now", RED), ("later", BLUE)],
        ),
        *what_if,
        table(
            "expiring_groups", "Groups that lose offsets, the soonest first", columns, rows, budget_bytes=GROUPS_BYTES
        ),
    ]
    return Section("expiring", "Expiring offsets by day", sentences, figures)


def _what_if(answers: Answers) -> list[Table | Plot]:
    """The effect of another retention. Offsets of groups with members or subscriptions stay in any case."""
    actual = answers["lake"][0]["retention_ms"]
    rows = []
    bars = []
    for row in answers["what_if_retention"]:
        retention = format_duration(row["retention_ms"])
        rows.append({**row, "retention": f"{retention} (as it is)" if row["retention_ms"] == actual else retention})
        parts = {
            "at once": row["due_offsets"],
            "within 7 days": row["week_offsets"] - row["due_offsets"],
            "within 30 days": row["month_offsets"] - row["week_offsets"],
        }
        bars += [{"at": retention, "series": name, "value": value} for name, value in parts.items()]
    columns = (
        "retention Retention; due_offsets At once :count; due_groups- Groups :count; "
        "week_offsets Within 7 days :count; month_offsets Within 30 days :count"
    )
    series = [("at once", RED), ("within 7 days", BLUE), ("within 30 days", PALE_BLUE)]
    plot = Plot(
        "what_if_plot",
        "Offsets that expire, if offsets.retention.minutes were",
        svg(numbered_chart(bars, series, Axes("retention", "offsets", "offset"))),
        legend_of([bar for bar in bars if bar["value"]], series),
        query("what_if_retention"),
    )
    return [
        plot,
        table(
            "what_if_retention",
            "The same in figures: offsets that expire, and of how many groups at once",
            columns,
            rows,
            is_small=True,
        ),
    ]


def if_empty_section(answers: Answers) -> Section:
    rows = answers["if_empty"]
    at_once = [row for row in rows if row["at_once"]]
    heading = "Offsets lost at once if a group empties"
    if not rows:
        return Section("if-empty", heading, ["No offset is kept only because its group has members."])
    offsets, groups = sum(row["at_once"] for row in rows), group_count(at_once)
    kept = sum(row["offsets"] for row in rows)
    sentences = [
        f"{counted(kept, 'offset')} of {counted(group_count(rows), 'group')} stay only as long as their groups do not "
        "change. "
        + (
            f"{offsets:,} of them, of {counted(groups, 'group')}, would be due as soon as the last member leaves: "
            "KIP-848 groups count from the commit, however old it is."
            if offsets
            else "None would be due at once: each has a full retention left when its group empties, or part of it."
        )
    ]
    columns = (
        "group_id Group; group_type- Type; state- State; member_count- Members :count; at_once At once :count; "
        "offsets In all :count; last_expires_at- All expired by (UTC) :time"
    )
    caption = "If a group lost its members now: offsets lost at once, and when the rest would expire"
    return Section(
        "if-empty", heading, sentences, [table("if_empty", caption, columns, rows, budget_bytes=GROUPS_BYTES)]
    )
