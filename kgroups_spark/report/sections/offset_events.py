"""Offsets that were rewound or skipped ahead, and offsets and groups that were removed."""

from __future__ import annotations

from kgroups_spark.counts import counted
from kgroups_spark.report.figures import Column, Plot, Section, Table, table
from kgroups_spark.report.plots import AMBER, BLUE, GREEN, GREY, PURPLE, RED
from kgroups_spark.report.sections.shared import DAYS, GROUP, Answers, last_days_plot
from kgroups_spark.report.words import CAUSES, MOVES


def moves_section(answers: Answers) -> Section:
    rows = answers["offset_moves"]
    heading = "Offsets rewound or skipped ahead"
    if not rows:
        return Section("moves", heading, ["No committed offset was rewound or skipped ahead in the log."])
    shown = [{**row, "how": MOVES[row["event"]], "why": CAUSES[row["cause"]]} for row in rows]
    columns = [
        Column("event_timestamp", "When (UTC)", "time"),
        GROUP,
        Column("topic", "Topic"),
        Column("how", "What", is_minor=True),
        Column("why", "How", is_minor=True),
        Column("partitions", "Partitions", "count", is_minor=True),
        Column("read_again", "Read again", "count"),
        Column("skipped", "Never read", "count", is_minor=True),
    ]
    bars = [
        {"day": row["day"], "series": MOVES[row["event"]], "value": row["events"]}
        for row in answers["events_by_day"]
        if row["event"] in MOVES
    ]
    series = list(zip(MOVES.values(), (RED, AMBER, PURPLE), strict=True))
    sentences = [
        "The log does not record who committed. A lower offset committed while the group has no members is most "
        "likely an admin reset."
    ]
    figures: list[Table | Plot] = [table("offset_moves", "Moves, the newest first", columns, shown)]
    if bars:
        caption = f"Partitions whose offset moved, by day, in the {DAYS} days before the audit"
        figures.insert(0, last_days_plot(answers, "moves_by_day", caption, bars, series, "events_by_day", "offset"))
    return Section("moves", heading, sentences, figures)


def removals_section(answers: Answers) -> Section:
    rows = answers["removals"]
    heading = "Offsets and groups that were removed"
    if not rows:
        return Section("removals", heading, ["No offset and no group was removed in the log."])
    shown = [{**row, "why": CAUSES[row["cause"]]} for row in rows]
    columns = [
        Column("event_timestamp", "When (UTC)", "time"),
        GROUP,
        Column("why", "Cause"),
        Column("offsets", "Offsets", "count"),
        Column("topics", "Topics", "count", is_minor=True),
        Column("is_group_removed", "Group, too", is_minor=True),
    ]
    colors = {"expired": BLUE, "group_deleted": RED, "offset_deleted": AMBER, "topic_deleted": GREEN, "unknown": GREY}
    bars = [
        {"day": row["day"], "series": CAUSES[row["cause"]], "value": row["events"]}
        for row in answers["events_by_day"]
        if row["event"] == "offset_removed"
    ]
    figures: list[Table | Plot] = [table("removals", "Removals, the newest first", columns, shown)]
    if bars:
        series = [(CAUSES[cause], color) for cause, color in colors.items()]
        caption = f"Offsets that were removed, by day, in the {DAYS} days before the audit"
        figures.insert(0, last_days_plot(answers, "removals_by_day", caption, bars, series, "events_by_day", "offset"))
    removed = sum(row["offsets"] for row in rows)
    groups = sum(row["is_group_removed"] for row in rows)
    sentence = f"{counted(removed, 'offset')} and {counted(groups, 'group')} were removed in the log."
    return Section("removals", heading, [sentence], figures)
