"""audit the shipped segments into ./lake and show what is in it

Audits segments that come with the package into a lake and shows what is in it: three weeks of a small shop's 48
consumer groups, written by Kafka 4.3.1's own coordinator. A second run reads nothing new and shows the same.

examples:
  kgroups demo                        into ./lake
  kgroups demo --lake /tmp/lake"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgroups_spark.cli import audit
from kgroups_spark.cli.expiring import expires_in
from kgroups_spark.cli.form import LAKE, WIDE, WRITER, folded, screen
from kgroups_spark.cli.open_lake import open_lake, require_free, require_lake_path
from kgroups_spark.cli.options import GROUP_STATES, GROUP_TYPES, lake_location
from kgroups_spark.cli.output import Column, say, screen_width, show, table_cell, table_of, wrapped
from kgroups_spark.cli.pending import PENDING, judged
from kgroups_spark.cli.text import NULL, Style, TextTable
from kgroups_spark.coordinator.transaction_shard import MAX_TRANSACTION_TIMEOUT_MS
from kgroups_spark.findings.finding import SEVERITIES
from kgroups_spark.package_data import on_disk
from kgroups_spark.report.figures import CAUSES, MOVES, counted_from, query
from kgroups_spark.sql.reader import LakeReader
from kgroups_spark.words import (
    DAY_MS,
    counted,
    format_duration,
    format_time_for_people,
    group_count,
    shell_option,
    shell_word,
    to_epoch_ms,
)

# A screen with the contents of a lake: groups, expiring offsets, hanging transactions, findings, and next commands.


Rows = Sequence[dict[str, Any]]

_ROWS_A_SECTION = 8
EXPIRING = screen("group_id=GROUP group_type=TYPE state offsets=#OFFSETS first_expires_at=EXPIRES-AT due_in=IN why~")
MOVED = screen(
    "group_id=GROUP topic event_timestamp=WHEN_(UTC) partitions=#PARTITIONS read_again skipped=NEVER-READ what~ how~"
)
PENDING_OVERVIEW = screen(
    "transactional_id group_id=GROUP topic partition committed_offset=PENDING-OFFSET open_since age is_hanging=HANGING "
    "producer_id"
)
FINDINGS = screen("severity finding group_id=GROUP since=SINCE_(UTC)")


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
        _pending_lines(overview, width, style),
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
    as_of, retention_ms = to_epoch_ms(overview.audit["as_of"]), overview.audit["retention_ms"]
    rows = [
        row | {"due_in": expires_in(to_epoch_ms(row["first_expires_at"]) - as_of), "why": why(row, retention_ms)}
        for row in overview.expiring
    ]
    title = "Committed offsets that expire next, if things stay as they are"
    lines = _table(title, rows, EXPIRING, width, style)
    if not rows:
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
    rows = [move | {"what": MOVES[move["event"]], "how": CAUSES[move["cause"]]} for move in overview.moves]
    title = "Committed offsets that were rewound or skipped ahead, the newest first"
    return _table(title, rows, MOVED, width, style)


def _pending_lines(overview: Overview, width: int | None, style: Style) -> list[str]:
    # The longest open transaction is the first.
    rows = folded(overview.pending, overview.groups, ("open_since", "age", "is_hanging"))
    columns = PENDING_OVERVIEW if any(row["transactional_id"] for row in rows) else PENDING_OVERVIEW[1:]
    nothing = [style.heading("No offset is pending in an open transaction")]
    return _table("Offsets in open transactions", rows, columns, width, style) or nothing


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
    findings = sorted(overview.findings, key=lambda row: SEVERITIES.index(row["severity"]))
    if findings:
        return [*_table("Findings and notes", findings, FINDINGS, width, style), *lines]
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


def _table(title: str, rows: Rows, columns: Sequence[Column], width: int | None, style: Style) -> list[str]:
    """The first rows, and the number of others; no line if there is no row."""
    left = len(rows) - _ROWS_A_SECTION
    more = [style.quiet(f"  and {left} more")] if left > 0 else []
    return _section(title, table_of(rows[:_ROWS_A_SECTION], columns), width, style) + more if rows else []


def _section(title: str, table: TextTable, width: int | None, style: Style) -> list[str]:
    heading, *rows = table.lines(None if width is None else width - 2)
    return [style.heading(title), "  " + style.quiet(heading), *(f"  {row}".rstrip(" ") for row in rows)]


SEGMENTS = on_disk("demo/segments")
DEFAULT_LAKE = "./lake"


OPTIONS = (LAKE._replace(help=LAKE.help.replace(")", f", else {DEFAULT_LAKE})")), WIDE, WRITER)


def run(arguments: argparse.Namespace) -> int:
    """Audits the shipped segments and prints the screen."""
    arguments.lake = lake_location(arguments, DEFAULT_LAKE)
    require_lake_path(arguments.lake)
    require_free(arguments.lake)
    say(f"reading the shipped segments into {arguments.lake}")
    options = audit.default_options()
    options.engine, arguments.engine = arguments.engine, "duckdb" if arguments.engine == "local" else "auto"
    audit.audit(options, arguments.lake, [str(SEGMENTS)])
    overview = read_overview(open_lake(arguments))
    lines = overview_lines(
        overview,
        program=program_name(sys.argv[0]),
        lake=arguments.lake,
        width=screen_width(sys.stdout),
        style=Style.of(sys.stdout),
    )
    for line in lines:
        show(line)
    return 0


def program_name(called_as: str) -> str:
    """The command that starts kgroups here: its name if it is on the PATH, else the path with which it was started."""
    path = Path(called_as)
    if path.name != "kgroups" or shutil.which("kgroups") is not None:
        return "kgroups"
    return shlex.quote(os.path.relpath(path) if path.is_relative_to(Path.cwd()) else called_as)


OFFSETS = """
SELECT
  count(*) AS offset_count,
  count(CASE WHEN expires_at IS NULL THEN expires_at_if_empty END) AS more_if_empty,
  max(CASE WHEN expires_at IS NULL THEN expires_at_if_empty END) AS last_if_empty
FROM offset_expiry"""


def read_overview(reader: LakeReader) -> Overview:
    """The contents of the screen, read from the lake."""
    last = reader.last_audit["audit_id"]
    return Overview(
        audit=reader.last_audit,
        groups=reader.rows("groups"),
        expiring=reader.sql(query("expiring_groups")),
        **reader.sql(OFFSETS)[0],
        pending=_pending(reader),
        moves=reader.sql(query("offset_moves")),
        findings=reader.sql("SELECT * FROM findings WHERE audit_id = :last", last=last),
        oldest_log_timestamp=reader.sql("SELECT begins FROM known_history")[0]["begins"],
    )


def _pending(reader: LakeReader) -> list[dict[str, Any]]:
    return [judged(row, None, reader.as_of_ms, MAX_TRANSACTION_TIMEOUT_MS) for row in reader.sql(PENDING)]
