"""A screen that answers what a lake holds: groups, what expires next, what hangs, what is odd, what to type next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kgroups_spark.commands.expiring import expiring_groups, expiring_offsets
from kgroups_spark.commands.options import GROUP_STATES, GROUP_TYPES
from kgroups_spark.commands.output import table_cell
from kgroups_spark.commands.style import Style
from kgroups_spark.commands.text_table import TextTable, printable
from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.times import format_time_for_people, to_epoch_ms

Rows = Sequence[dict[str, Any]]

_ROWS_A_SECTION = 8


@dataclass(frozen=True)
class Overview:
    """What the screen shows, as rows of the tables of the same names."""

    audit: dict[str, Any]  # the ledger's row
    groups: Rows
    expiry: Rows  # offset_expiry with group_type and state
    pending: Rows  # as `kgroups pending` prints it
    rewinds: Rows  # of history.rewinds
    oldest_log_timestamp: Any  # datetime; None: an empty lake


def overview_lines(overview: Overview, *, program: str, lake: str, width: int | None, style: Style) -> list[str]:
    """The screen, section by section with a blank line between them; `program` is how kgroups is called here."""
    sections = [
        _title(overview, style),
        _groups(overview, width, style),
        _expiring(overview, width, style),
        _rewinds(overview, width, style),
        _pending(overview, width, style),
        _oddities(overview, style),
        _next_commands(overview, program, shlex.quote(lake), style),
    ]
    lines: list[str] = []
    for section in sections:
        if section:
            lines += ["", *section]
    return lines


def _title(overview: Overview, style: Style) -> list[str]:
    audit = overview.audit
    records = sum(partition["records"] for partition in audit["partitions"])
    span = ""
    if overview.oldest_log_timestamp is not None and audit["newest_log_timestamp"] is not None:
        oldest, newest = (
            format_time_for_people(moment)[:16]
            for moment in (overview.oldest_log_timestamp, audit["newest_log_timestamp"])
        )
        span = f", {oldest} to {newest} UTC"
    read = f"this audit read {counted(records, 'record')}" if records else "nothing new to read"
    return [
        style.heading(f"__consumer_offsets: {counted(len(overview.groups), 'group')}, "
                      f"{counted(len(overview.expiry), 'committed offset')}{span}"),
        style.quiet(f"audit {audit['audit_id']}: {read}; judged as of {table_cell(audit['as_of'])} UTC, "
                    f"retention {format_duration(audit['retention_ms'])} ({audit['retention_source']}), "
                    f"rules of Kafka {audit['release_version']}"),
    ]  # fmt: skip


def _groups(overview: Overview, width: int | None, style: Style) -> list[str]:
    counts = Counter((row["group_type"], row["state"]) for row in overview.groups)
    states = [state for state in GROUP_STATES if any(counts[kind, state] for kind in GROUP_TYPES)]
    table = TextTable(["TYPE", *(state.upper() for state in states), "TOTAL"])
    for kind in GROUP_TYPES:
        of_kind = [counts[kind, state] for state in states]
        if any(of_kind):
            table.add([kind, *(count or "-" for count in of_kind), sum(of_kind)])
    return _section("Groups by type and state", table, width, style)


def _expiring(overview: Overview, width: int | None, style: Style) -> list[str]:
    as_of_ms = to_epoch_ms(overview.audit["as_of"])
    groups = expiring_groups(expiring_offsets(overview.expiry, as_of_ms=as_of_ms, until_ms=None, if_empty=False))
    table = TextTable(["GROUP", "TYPE", "STATE", "#OFFSETS", "EXPIRES-AT (UTC)", "IN", "WHY"])
    for row in groups[:_ROWS_A_SECTION]:
        cells = [row[name] for name in ("group_id", "group_type", "state", "offset_count", "expires_at", "expires_in")]
        table.add([*map(table_cell, cells), why(row)])
    lines = _section("Committed offsets that expire next, if things stay as they are", table, width, style)
    lines += _more(groups, style)
    if not groups:
        lines = [style.heading("No committed offset expires as things stand")]
    kept = [row for row in overview.expiry if row["expires_at"] is None and row["expires_at_if_empty"] is not None]
    if kept:
        last = max(row["expires_at_if_empty"] for row in kept)
        more = counted(len(kept), "more offset")
        lines.append(style.quiet(f"{more} would be gone by {table_cell(last)} if every group became empty now"))
    return lines


def why(row: dict[str, Any]) -> str:
    """The reason of a decision in words, of a row of offset_expiry with the group's state."""
    if row["base"] == "expire_timestamp":
        return "the commit itself set this time"
    since = format_time_for_people(row["base_timestamp"])[:16] if row["base_timestamp"] is not None else "?"
    retention = format_duration(row["retention_ms"])
    if row["reason"] == "orphan":
        return f"no such group; committed {since}, retention {retention}"
    if row["base"] == "current_state_timestamp":
        return f"{row['state']} since {since}, retention {retention}"
    if row["state"] not in ("Empty", "Dead", None):
        return f"not subscribed to; committed {since}, retention {retention}"
    return f"committed {since}, retention {retention}"


def _rewinds(overview: Overview, width: int | None, style: Style) -> list[str]:
    table = TextTable(["GROUP", "TOPIC", "WHEN (UTC)", "#PARTITIONS", "READ-AGAIN", "HOW"])
    moves = rewinds_by_topic(overview.rewinds)
    for move in moves[:_ROWS_A_SECTION]:
        table.add([table_cell(move[name]) for name in ("group_id", "topic", "at", "partitions", "read_again", "how")])
    if not table.rows:
        return []
    return _section("Committed offsets that went back, the newest first", table, width, style) + _more(moves, style)


def rewinds_by_topic(rewinds: Rows) -> list[dict[str, Any]]:
    """One row for what happened to a group's offsets of a topic in one way on one day, the newest first; records are
    read again but where the topic is another one of that name."""
    moves: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rewinds, key=lambda row: row["log_offset"]):
        at, how = row["log_timestamp"], _how(row)
        key = (row["group_id"], row["topic"], how, None if at is None else at.date())
        move = moves.setdefault(key, row | {"at": at, "how": how, "partitions": 0, "read_again": 0})
        move["partitions"] += 1
        move["read_again"] += row["offset_before"] - row["offset_after"]
    for move in moves.values():
        if move["topic_recreated"]:
            move["read_again"] = None
    dated = [move for move in moves.values() if move["at"] is not None]
    return sorted(dated, key=lambda move: move["at"], reverse=True) + [m for m in moves.values() if m["at"] is None]


def _how(row: dict[str, Any]) -> str:
    if row["topic_recreated"]:
        return "the topic was deleted and made again"
    return "first commit after its removal" if row["was_removed"] else "a smaller offset was committed"


def _pending(overview: Overview, width: int | None, style: Style) -> list[str]:
    table = TextTable(
        ["PRODUCER-ID", "OPEN-SINCE (UTC)", "AGE", "HANGING", "GROUP", "TOPIC", "PARTITION", "PENDING-OFFSET"]
    )
    for row in overview.pending[:_ROWS_A_SECTION]:
        names = ("producer_id", "open_since", "age", "is_hanging", "group_id", "topic", "partition", "committed_offset")
        table.add([table_cell(row[name]) for name in names])
    if not table.rows:
        return [style.heading("No offset hangs in an open transaction")]
    return _section("Offsets in open transactions", table, width, style) + _more(overview.pending, style)


def _oddities(overview: Overview, style: Style) -> list[str]:
    audit = overview.audit
    odd = [
        f"{counted(count, 'record')} in quarantine: {reason}" for reason, count in sorted(audit["quarantined"].items())
    ]
    misplaced = [row["group_id"] for row in overview.groups if row["is_misplaced"]]
    if misplaced:
        odd.append(
            f"{counted(len(misplaced), 'group')} in a partition that their name does not hash to: {_names(misplaced)}"
        )
    orphans = {row["group_id"] for row in overview.expiry if row["reason"] == "orphan"}
    if orphans:
        odd.append(f"committed offsets of {counted(len(orphans), 'group')} that do not exist: {_names(orphans)}")
    for partition in audit["partitions"]:
        if partition["lost_from"] is not None:
            odd.append(
                f"partition {partition['offsets_partition']}: offsets {partition['lost_from']} to "
                f"{partition['lost_to'] - 1} were gone before they could be read"
            )
    odd += audit["notes"]
    if not odd:
        return [style.heading("Nothing odd: every record could be used, every group is where it belongs")]
    return [style.heading("Odd"), *(style.warning(f"  {printable(line)}") for line in odd)]


def _next_commands(overview: Overview, program: str, lake: str, style: Style) -> list[str]:
    commands = [
        (f"{program} expiring --lake {lake} --within 48h --offsets", "one row an offset, with the rule"),
        (f"{program} expiring --lake {lake} --if-empty --retention 3d", "what if?"),
        (f"{program} groups --lake {lake} --as-of {_a_week_before(overview)}", "as it was then"),
        (f"{program} pending --lake {lake} --hanging --format json", "for a script"),
        (f"{program} audits --lake {lake}", "the ledger"),
    ]
    widest = max(len(command) for command, _ in commands)
    return [
        style.heading("Next"),
        *(f"  {command:<{widest}}   {style.quiet('# ' + remark)}" for command, remark in commands),
    ]


def _a_week_before(overview: Overview) -> str:
    moment = to_epoch_ms(overview.audit["as_of"]) - 7 * 86_400_000
    return format_time_for_people(moment)[:16].replace(" ", "T")


def _section(title: str, table: TextTable, width: int | None, style: Style) -> list[str]:
    heading, *rows = table.lines(None if width is None else width - 2)
    return [style.heading(title), "  " + style.quiet(heading), *("  " + row for row in rows)]


def _more(rows: Sequence[object], style: Style) -> list[str]:
    left = len(rows) - _ROWS_A_SECTION
    return [style.quiet(f"  and {left} more")] if left > 0 else []


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:5]) + (", ..." if len(ordered) > 5 else "")
