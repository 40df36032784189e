"""`kgroups expiring`: which committed offsets expire, when, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from kgroups_spark.commands.options import (
    add_engine_option,
    add_format_option,
    add_lake_option,
    duration_value,
    positive_duration_value,
    time_value,
)
from kgroups_spark.commands.other_retention import for_retention
from kgroups_spark.commands.output import Column, say, write_rows
from kgroups_spark.commands.reading import LakeReader, open_lake
from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.times import format_time_for_people, to_datetime, to_epoch_ms

NAME = "expiring"
SUMMARY = "which committed offsets expire, when, and why"
DESCRIPTION = """\
Prints one row for each group that loses committed offsets if things stay as they were when the last audit read the log:
how many, the earliest moment, and the rule. The broker removes them at its first check after that moment. Nothing in
the lake changes: retention and "if every group were empty" are arguments of the same rules that the audit used."""
EXAMPLES = """\
examples:
  kgroups expiring --lake ./lake                           everything that has a date
  kgroups expiring --lake ./lake --within 48h              within two days of what the last audit read
  kgroups expiring --lake ./lake --until 2026-11-23T08:00 --if-empty
                                                           what if nobody comes back until Monday?
  kgroups expiring --lake ./lake --retention 14d           what would another retention keep?
  kgroups expiring --lake ./lake --offsets --format csv    one row an offset
  kgroups expiring --lake ./lake --within 24h --fail-if-any     exit 4 if there is one, for alerting"""

GROUP_COLUMNS = (
    Column("audit_id"),
    Column("as_of"),
    Column("retention_ms"),
    Column("offsets_partition"),
    Column("group_id", "GROUP"),
    Column("group_type", "TYPE"),
    Column("state", "STATE"),
    Column("offset_count", "#OFFSETS"),
    Column("expires_at", "EXPIRES-AT (UTC)"),
    Column("expires_in", "IN"),
    Column("reason", "REASON"),
)
OFFSET_COLUMNS = (
    Column("audit_id"),
    Column("as_of"),
    Column("retention_ms"),
    Column("offsets_partition"),
    Column("group_id", "GROUP"),
    Column("group_type"),
    Column("state", "STATE"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("committed_offset", "COMMITTED-OFFSET"),
    Column("log_offset"),
    Column("decision", "DECISION"),
    Column("reason", "REASON"),
    Column("base"),
    Column("base_timestamp", "BASE (UTC)"),
    Column("expires_at", "EXPIRES-AT (UTC)"),
    Column("expires_at_if_empty"),
    Column("expires_in", "IN"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups expiring`."""
    add_lake_option(parser)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--until", type=time_value, metavar="T", help="only what expires at T or before")
    limit.add_argument(
        "--within", type=duration_value, metavar="D", help="only what expires this long after the audit's as-of time"
    )
    parser.add_argument(
        "--retention",
        type=positive_duration_value,
        metavar="D",
        help="as if offsets.retention.minutes were this (default: the last audit's)",
    )
    parser.add_argument(
        "--if-empty", action="store_true", help="as if every group had lost its last member at the as-of time"
    )
    parser.add_argument("--offsets", action="store_true", help="one row an offset instead of one a group")
    parser.add_argument("--fail-if-any", action="store_true", help="exit 4 if there is a row, for alerting")
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints what expires."""
    reader = open_lake(arguments)
    until_ms = _until_ms(arguments, reader.as_of_ms)
    decisions = expiry_rows(reader, arguments.retention)
    offsets = expiring_offsets(decisions, as_of_ms=reader.as_of_ms, until_ms=until_ms, if_empty=arguments.if_empty)
    rows = offsets if arguments.offsets else expiring_groups(offsets)
    columns: Sequence[Column] = OFFSET_COLUMNS if arguments.offsets else GROUP_COLUMNS
    if arguments.format != "table":
        columns = [column for column in columns if column.name != "expires_in"]  # for eyes
    write_rows(rows, columns, arguments.format)
    say(_closing_line(reader, offsets, until_ms, arguments))
    return 4 if arguments.fail_if_any and rows else 0


def _until_ms(arguments: argparse.Namespace, as_of_ms: int) -> int | None:
    if arguments.within is not None:
        return as_of_ms + int(arguments.within)
    return None if arguments.until is None else int(arguments.until)


def expiry_rows(reader: LakeReader, retention_ms: int | None = None) -> list[dict[str, Any]]:
    """Rows of offset_expiry with type and state of each offset's group: the audit's decisions, or decided anew for
    another retention."""
    decisions, all_groups, audit = reader.rows("offset_expiry"), reader.rows("groups"), reader.last_audit
    if retention_ms is not None and retention_ms != audit["retention_ms"]:
        decisions = for_retention(
            decisions,
            reader.rows("committed_offsets"),
            all_groups,
            retention_ms=retention_ms,
            release_version=audit["release_version"],
        )
    groups = {(row["offsets_partition"], row["group_id"]): row for row in all_groups}
    return [row | _type_and_state(groups.get((row["offsets_partition"], row["group_id"]))) for row in decisions]


def _type_and_state(group: dict[str, Any] | None) -> dict[str, Any]:
    """Nulls for an offset without a group."""
    return {name: None if group is None else group[name] for name in ("group_type", "state")}


def expiring_offsets(
    decisions: Iterable[dict[str, Any]], *, as_of_ms: int, until_ms: int | None, if_empty: bool
) -> list[dict[str, Any]]:
    """The offsets that have a moment of expiry, until `until_ms` (None: ever), the soonest first; `expires_in` is its
    distance from the as-of time. With `if_empty`, moment and reason are those of the group without members."""
    rows = []
    for decision in decisions:
        row = _as_if_empty(decision, as_of_ms) if if_empty else decision
        moment = row["expires_at"]
        if moment is None or (until_ms is not None and to_epoch_ms(moment) > until_ms):
            continue
        rows.append(row | {"expires_in": expires_in(to_epoch_ms(moment) - as_of_ms)})
    return sorted(rows, key=lambda row: (row["expires_at"], row["group_id"], row["topic"], row["partition"]))


def _as_if_empty(decision: dict[str, Any], as_of_ms: int) -> dict[str, Any]:
    moment = decision["expires_at_if_empty"]
    if moment is None or moment == decision["expires_at"]:
        return decision
    is_due = to_epoch_ms(moment) <= as_of_ms
    return decision | {
        "expires_at": moment,
        "decision": "expire" if is_due else "keep",
        "reason": "retention_passed" if is_due else "within_retention",
    }


def expires_in(duration_ms: int) -> str:
    """`6d 23h`; `now` where only the broker's next check is missing."""
    return "now" if duration_ms <= 0 else format_duration(duration_ms)


def expiring_groups(offsets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a group, of its offsets in order: the first one's moment and reason, and how many there are."""
    groups: dict[tuple[int, str], dict[str, Any]] = {}
    for row in offsets:
        group = groups.setdefault((row["offsets_partition"], row["group_id"]), row | {"offset_count": 0})
        group["offset_count"] += 1
    return list(groups.values())


def _closing_line(
    reader: LakeReader, offsets: list[dict[str, Any]], until_ms: int | None, arguments: argparse.Namespace
) -> str:
    groups = len({(row["offsets_partition"], row["group_id"]) for row in offsets})
    until = "" if until_ms is None else f" until {format_time_for_people(to_datetime(until_ms))} UTC"
    if_empty = " if every group were empty" if arguments.if_empty else ""
    retention = format_duration(arguments.retention or reader.last_audit["retention_ms"])
    found = f"{counted(len(offsets), 'offset')} of {counted(groups, 'group')}"
    return f"to expire{until}{if_empty}, retention {retention}: {found} ({reader.known_as_of()})"
