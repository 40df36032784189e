"""`kgroups expiring`: the committed offsets that expire, with the time and the reason."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.errors import UsageError
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader
from kgroups_spark.terminal.options import (
    add_engine_option,
    add_fail_if_any_option,
    add_format_option,
    add_lake_option,
    duration_value,
    fail_if_any,
    positive_duration_value,
    time_value,
)
from kgroups_spark.terminal.output import Column, say, until_closed, write_rows
from kgroups_spark.terminal.output_file import require_place, write_file
from kgroups_spark.times import LAST_MS, format_utc, to_datetime, to_epoch_ms

Row = dict[str, Any]

# Without a what-if question: the audit's decisions alone. The function reads the committed offsets, too.
DECIDED = """(
  SELECT expiry.*, groups.group_type, groups.state
  FROM offset_expiry AS expiry
  LEFT JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
  WHERE expiry.expires_at IS NOT NULL AND (:until IS NULL OR expiry.expires_at <= :until)
)"""
OFFSETS = "SELECT * FROM {expiring} AS expiring ORDER BY expires_at, group_id, topic, partition"
# The number of a group's offsets, and moment and reason of the soonest: if several reasons apply at that moment, the
# first by name.
GROUPS = """
SELECT * FROM (
  SELECT audit_id, as_of, retention_ms, offsets_partition, group_id, group_type, state, reason,
    min(expires_at) AS expires_at,
    sum(count(*)) OVER (PARTITION BY offsets_partition, group_id) AS offset_count,
    row_number() OVER (PARTITION BY offsets_partition, group_id ORDER BY min(expires_at), reason) AS place
  FROM {expiring} AS expiring
  GROUP BY audit_id, as_of, retention_ms, offsets_partition, group_id, group_type, state, reason
) AS by_reason
WHERE place = 1
ORDER BY expires_at, group_id, offsets_partition"""

NAME = "expiring"
SUMMARY = "which committed offsets expire, when, and why"
DESCRIPTION = """\
Prints one row for each group that will lose committed offsets if nothing changes after the last audit: how many, the
earliest moment, and the rule. The broker removes them at its first check after that moment. Options for what-if
questions change nothing in the lake: they apply the audit's rules to other settings."""
EXAMPLES = """\
examples:
  kgroups expiring --lake ./lake                           everything with an expiry time
  kgroups expiring --lake ./lake --within 48h              within two days after the last audit
  kgroups expiring --lake ./lake --until 2026-11-23T08:00 --if-empty
                                                           what if no consumer returns before Monday?
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
    add_lake_option(parser)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--until", type=time_value, metavar="T", help="only what expires at T or before")
    limit.add_argument(
        "--within",
        type=duration_value,
        metavar="D",
        help="only offsets that expire within this duration after the audit's as-of time",
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
    parser.add_argument("--offsets", action="store_true", help="one row for each offset, not for each group")
    add_fail_if_any_option(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="write the rows to this file (or URI), too: x.csv, or JSON lines as x.json"
    )
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the offsets that expire. Returns the exit code."""
    form = None if arguments.output is None else file_format(arguments.output)
    reader = open_lake(arguments)
    until = _until(arguments, reader.as_of_ms)
    found = Found()
    rows: Iterable[Row] = found.among(expiring_rows(reader, arguments, until))
    columns: Sequence[Column] = OFFSET_COLUMNS if arguments.offsets else GROUP_COLUMNS
    stored = [column for column in columns if column.name != "expires_in"]  # for the screen only
    if form is not None:
        rows = list(rows)
        write_rows(rows, stored, form, text := io.StringIO())
        write_file(arguments.output, text.getvalue().encode())
    with until_closed():
        write_rows(rows, columns if arguments.format == "table" else stored, arguments.format)
    say(_closing_line(reader, arguments, until, found))
    return fail_if_any(arguments, found.offsets)


def file_format(output: str) -> str:
    """`csv` or `json`, from the file's name. Raises UsageError for another name, or if no file can be written there."""
    form = output.rpartition(".")[2]
    if form not in ("csv", "json"):
        raise UsageError(f"--output {output}: name a file that ends in .csv or .json")
    require_place(output, "expiring.csv")
    return form


@dataclass
class Found:
    """The number of offsets and groups so far."""

    offsets: int = 0
    groups: set[str] = field(default_factory=set)

    def among(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, of offsets or of groups, counted as they pass."""
        for row in rows:
            self.offsets += row.get("offset_count", 1)
            self.groups.add(row["group_id"])
            yield row


def expiring_rows(reader: LakeReader, arguments: argparse.Namespace, until: datetime | None) -> Iterator[Row]:
    """A row for each offset, or for each group, the soonest first. `expires_in` counts from the as-of time."""
    query, expiring = OFFSETS if arguments.offsets else GROUPS, DECIDED
    if arguments.retention is not None or arguments.if_empty:
        retention = "NULL" if arguments.retention is None else f"INTERVAL '{arguments.retention / 1000:.3f}' SECOND"
        expiring = f"expiring(:until, {retention}, {arguments.if_empty})"
    for row in reader.stream(query.format(expiring=expiring), {"until": until}):
        yield row | {"expires_in": expires_in(to_epoch_ms(row["expires_at"]) - reader.as_of_ms)}


def _until(arguments: argparse.Namespace, as_of_ms: int) -> datetime | None:
    if arguments.within is not None:
        return to_datetime(min(as_of_ms + int(arguments.within), LAST_MS))
    return None if arguments.until is None else to_datetime(arguments.until)


def expires_in(duration_ms: int) -> str:
    """`6d 23h`; `now` if the broker removes it at its next check."""
    return "now" if duration_ms <= 0 else format_duration(duration_ms)


def _closing_line(reader: LakeReader, arguments: argparse.Namespace, until: datetime | None, found: Found) -> str:
    by = "" if until is None else f" by {format_utc(until)}"
    expire = "would expire" if arguments.if_empty else "will expire"
    if_empty = " if every group were empty" if arguments.if_empty else ""
    retention = format_duration(arguments.retention or reader.last_audit["retention_ms"])
    offsets = f"{counted(found.offsets, 'offset')} of {counted(len(found.groups), 'group')}"
    return f"{offsets} {expire}{by}{if_empty}, retention {retention} ({reader.known_as_of()})"
