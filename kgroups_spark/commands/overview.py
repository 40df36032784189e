"""A screen with the contents of a lake: groups, expiring offsets, hanging transactions, findings, and next commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgroups_spark.commands.expiring import expires_in
from kgroups_spark.counts import counted, group_count
from kgroups_spark.durations import DAY_MS, format_duration
from kgroups_spark.escapes import shell_option, shell_word
from kgroups_spark.findings.finding import SEVERITIES
from kgroups_spark.report.words import CAUSES, MOVES, counted_from
from kgroups_spark.terminal.display import words
from kgroups_spark.terminal.options import GROUP_STATES, GROUP_TYPES
from kgroups_spark.terminal.output import table_cell, wrapped
from kgroups_spark.terminal.style import Style
from kgroups_spark.terminal.text_table import NULL, TextTable
from kgroups_spark.times import format_time_for_people, to_epoch_ms

Rows = Sequence[dict[str, Any]]

_ROWS_A_SECTION = 8


@dataclass(frozen=True)
class Overview:
    """The contents of the screen, as rows of the tables of the same names."""

    audit: dict[str, Any]  # the ledger's row
    groups: Rows
    expiring: Rows  # of the report's query expiring_groups
    offset_count: int
    more_if_empty: int  # the offsets that would expire only if every group became Empty now
    last_if_empty: Any  # datetime: the last of them
    pending: Rows  # as `kgroups pending` prints it
    moves: Rows  # of the report's query offset_moves
    findings: Rows  # of the last audit
    oldest_log_timestamp: Any  # datetime; None: an empty lake


def overview_lines(overview: Overview, *, program: str, lake: str, width: int | None, style: Style) -> list[str]:
    """The screen, section by section with a blank line between them. `program`: the command that starts kgroups
    here."""
    sections = [
        _title(overview, width, style),
        _groups(overview, width, style),
        _expiring(overview, width, style),
        _moves(overview, width, style),
        _pending(overview, width, style),
        _findings_and_losses(overview, width, style),
        _next_commands(overview, program, shell_word(lake), width, style),
    ]
    lines: list[str] = []
    for section in sections:
        if section:
            lines += ["", *section]
    return lines


def _title(overview: Overview, width: int | None, style: Style) -> list[str]:
    audit = overview.audit
    records = sum(partition["records"] for partition in audit["partitions"] if partition.get("topic") is None)
    span = ""
    if overview.oldest_log_timestamp is not None and audit["newest_log_timestamp"] is not None:
        oldest, newest = (
            format_time_for_people(moment)[:16]
            for moment in (overview.oldest_log_timestamp, audit["newest_log_timestamp"])
        )
        span = f", {oldest} to {newest} UTC"
    read = f"this audit read {counted(records, 'record')}" if records else "nothing new to read"
    contents = (
        f"__consumer_offsets: {counted(group_count(overview.groups), 'group')}, "
        f"{counted(overview.offset_count, 'committed offset')}{span}"
    )
    basis = (
        f"audit {audit['audit_id']}: {read}; judged as of {table_cell(audit['as_of'])} UTC, "
        f"retention {format_duration(audit['retention_ms'])} ({audit['retention_source']}), "
        f"rules of Kafka {audit['release_version']}"
    )
    return [*map(style.heading, wrapped(contents, width)), *map(style.quiet, wrapped(basis, width))]


def _groups(overview: Overview, width: int | None, style: Style) -> list[str]:
    counts = Counter((row["group_type"], row["state"]) for row in overview.groups)
    states = [state for state in GROUP_STATES if any(counts[kind, state] for kind in GROUP_TYPES)]
    table = TextTable(["TYPE", *(state.upper() for state in states), "TOTAL"])
    for kind in GROUP_TYPES:
        of_kind = [counts[kind, state] for state in states]
        if any(of_kind):
            total = group_count(row for row in overview.groups if row["group_type"] == kind)
            table.add([kind, *(count or NULL for count in of_kind), total])
    return _section("Groups by type and state", table, width, style)


def _expiring(overview: Overview, width: int | None, style: Style) -> list[str]:
    groups, audit = overview.expiring, overview.audit
    table = TextTable(["GROUP", "TYPE", "STATE", "#OFFSETS", "EXPIRES-AT (UTC)", "IN", "WHY"])
    for row in groups[:_ROWS_A_SECTION]:
        cells = [row[name] for name in ("group_id", "group_type", "state", "offsets", "first_expires_at")]
        due_in = expires_in(to_epoch_ms(row["first_expires_at"]) - to_epoch_ms(audit["as_of"]))
        table.add([*map(table_cell, [*cells, due_in]), words(why(row, audit["retention_ms"]))])
    lines = _section("Committed offsets that expire next, if things stay as they are", table, width, style)
    lines += _more(groups, style)
    if not groups:
        lines = [style.heading("No committed offset expires if things stay as they are")]
    if overview.more_if_empty:
        more = counted(overview.more_if_empty, "more offset")
        more += f" would expire by {table_cell(overview.last_if_empty)} if every group became Empty now"
        lines += map(style.quiet, wrapped(more, width))
    return lines


def why(row: dict[str, Any], retention_ms: int) -> str:
    """The reason for a decision in words, from a row of the query expiring_groups."""
    if row["base"] == "expire_timestamp":
        return "the commit itself set this time"
    return f"{counted_from(row)}, retention {format_duration(retention_ms)}"


def _moves(overview: Overview, width: int | None, style: Style) -> list[str]:
    table = TextTable(["GROUP", "TOPIC", "WHEN (UTC)", "#PARTITIONS", "READ-AGAIN", "NEVER-READ", "WHAT", "HOW"])
    for move in overview.moves[:_ROWS_A_SECTION]:
        names = ("group_id", "topic", "event_timestamp", "partitions", "read_again", "skipped")
        cells = [table_cell(move[name]) for name in names]
        table.add([*cells, words(MOVES[move["event"]]), words(CAUSES[move["cause"]])])
    if not table.rows:
        return []
    title = "Committed offsets that were rewound or skipped ahead, the newest first"
    return _section(title, table, width, style) + _more(overview.moves, style)


def _pending(overview: Overview, width: int | None, style: Style) -> list[str]:
    table = TextTable(
        ["PRODUCER-ID", "OPEN-SINCE (UTC)", "AGE", "HANGING", "GROUP", "TOPIC", "PARTITION", "PENDING-OFFSET"]
    )
    for row in overview.pending[:_ROWS_A_SECTION]:
        names = ("producer_id", "open_since", "age", "is_hanging", "group_id", "topic", "partition", "committed_offset")
        table.add([table_cell(row[name]) for name in names])
    if not table.rows:
        return [style.heading("No offset is pending in an open transaction")]
    return _section("Offsets in open transactions", table, width, style) + _more(overview.pending, style)


def _findings_and_losses(overview: Overview, width: int | None, style: Style) -> list[str]:
    audit = overview.audit
    odd = [
        f"{counted(count, 'record')} in quarantine: {reason}" for reason, count in sorted(audit["quarantined"].items())
    ]
    for partition in audit["partitions"]:
        if partition["lost_from"] is not None:
            log = "" if partition.get("topic") is None else f"{partition['topic']}, "
            odd.append(
                f"{log}partition {partition['offsets_partition']}: offsets {partition['lost_from']} to "
                f"{partition['lost_to'] - 1} were compacted away before they could be read"
            )
    odd += audit["notes"]
    room = None if width is None else width - 2
    lines = [style.warning(f"  {line}") for text in odd for line in wrapped(text, room)]
    table = TextTable(["SEVERITY", "FINDING", "GROUP", "SINCE (UTC)"])
    findings = sorted(overview.findings, key=lambda row: SEVERITIES.index(row["severity"]))
    for row in findings[:_ROWS_A_SECTION]:
        table.add([table_cell(row[name]) for name in ("severity", "finding", "group_id", "since")])
    if table.rows:
        return [*_section("Findings and notes", table, width, style), *_more(findings, style), *lines]
    if lines:
        return [style.heading("Findings and notes"), *lines]
    return [style.heading("No findings, and every record could be used")]


def _next_commands(overview: Overview, program: str, lake: str, width: int | None, style: Style) -> list[str]:
    commands = [
        (f"{program} report --lake {lake} --output report.html", "all of it with plots, to open in a browser"),
        *_of_the_last_move(overview, program, lake),
        (f"{program} expiring --lake {lake} --if-empty --retention 3d", "what if?"),
        (f"{program} groups --lake {lake} --as-of {_a_week_before(overview)}", "the groups a week earlier"),
        (f"{program} findings --lake {lake}", "what is odd, why it matters, what to do"),
        (f"{program} pending --lake {lake} --hanging", "and how to end what hangs"),
    ]
    widest = max(len(command) for command, _ in commands)
    beside = all(width is None or len(f"  {'':{widest}}   # {remark}") <= width for _, remark in commands)
    lines = [style.heading("Next")]
    for command, text in commands:
        remark = style.quiet(f"# {text}")
        lines += [f"  {command:<{widest}}   {remark}"] if beside else [f"  {command}", f"      {remark}"]
    return lines


def _of_the_last_move(overview: Overview, program: str, lake: str) -> list[tuple[str, str]]:
    """The history command for the group whose offsets moved last."""
    if not overview.moves:
        return []
    group = shell_option("--group", overview.moves[0]["group_id"])
    return [(f"{program} history --lake {lake} {group}", "what happened to it")]


def _a_week_before(overview: Overview) -> str:
    moment = to_epoch_ms(overview.audit["as_of"]) - 7 * DAY_MS
    return format_time_for_people(moment)[:16].replace(" ", "T")


def _section(title: str, table: TextTable, width: int | None, style: Style) -> list[str]:
    heading, *rows = table.lines(None if width is None else width - 2)
    return [style.heading(title), "  " + style.quiet(heading), *(f"  {row}".rstrip(" ") for row in rows)]


def _more(rows: Sequence[object], style: Style) -> list[str]:
    left = len(rows) - _ROWS_A_SECTION
    return [style.quiet(f"  and {left} more")] if left > 0 else []
