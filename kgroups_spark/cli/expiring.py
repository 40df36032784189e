"""which committed offsets expire, when, and why

Prints one row for each group that will lose committed offsets if nothing changes after the last audit: how many, the
earliest moment, and the rule. The broker removes them at its first check after that moment. Options for what-if
questions change nothing in the lake: they apply the audit's rules to other settings.

examples:
  kgroups expiring --lake ./lake                           everything with an expiry time
  kgroups expiring --lake ./lake --within 48h              within two days after the last audit
  kgroups expiring --lake ./lake --until 2026-11-23T08:00 --if-empty
                                                           what if no consumer returns before Monday?
  kgroups expiring --lake ./lake --retention 14d           what would another retention keep?
  kgroups expiring --lake ./lake --offsets --format csv    one row an offset
  kgroups expiring --lake ./lake --within 24h --fail-if-any     exit 4 if there is one, for alerting"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from kgroups_spark.cli.form import (
    ALL,
    FAIL_IF_ANY,
    LAKE,
    ROWS,
    Option,
    duration_value,
    fail_if_any,
    folded_for,
    moment_value,
    positive_duration_value,
    screen,
    write,
)
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import Column, require_place, say, write_file, write_rows
from kgroups_spark.errors import UsageError
from kgroups_spark.sql.reader import LakeReader, Row
from kgroups_spark.words import LAST_MS, FromAsOf, counted, format_duration, format_utc, to_datetime, to_epoch_ms

OPTIONS = (
    LAKE,
    (
        Option("--until T", "only what expires at T or before", moment_value),
        Option(
            "--within D", "only offsets that expire within this duration after the audit's as-of time", duration_value
        ),
    ),
    Option(
        "--retention D",
        "as if offsets.retention.minutes were this (default: the last audit's)",
        positive_duration_value,
    ),
    Option("--if-empty", "as if every group had lost its last member at the as-of time"),
    Option("--offsets", "one row for each offset, not for each group"),
    ALL,
    FAIL_IF_ANY,
    Option("--output FILE", "write the rows to this file (or URI), too: x.csv, or JSON lines as x.json"),
    *ROWS,
)
# `expires_in` is for the screen only.
GROUPS_SCREEN = screen("group_id=GROUP group_type=TYPE* state offset_count=#OFFSETS expires_at expires_in=IN reason*")
OFFSETS_SCREEN = screen(
    "group_id=GROUP state* topic partition committed_offset* decision* reason* base_timestamp=BASE_(UTC)* expires_at "
    "expires_in=IN"
)

# Without a what-if question: the audit's decisions alone. The function reads the committed offsets, too.
DECIDED = """(
  SELECT expiry.*, groups.group_type, groups.state
  FROM offset_expiry AS expiry
  LEFT JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id
  WHERE expiry.expires_at IS NOT NULL AND (:until IS NULL OR expiry.expires_at <= :until)
)"""
_WHICH = "audit_id as_of retention_ms offsets_partition group_id group_type state"
_OFFSET = "topic partition committed_offset log_offset decision reason base base_timestamp"
OFFSET_COLUMNS = f"{_WHICH} {_OFFSET} expires_at expires_at_if_empty".split()
GROUP_COLUMNS = f"{_WHICH} offset_count expires_at reason".split()
OFFSETS = """
SELECT {columns}
FROM {expiring} AS expiring
ORDER BY expires_at, group_id, topic, partition"""
# The number of a group's offsets, and moment and reason (of several, the first by name) of the soonest.
GROUPS = """
SELECT {columns}
FROM (
  SELECT audit_id, as_of, retention_ms, offsets_partition, group_id, group_type, state, reason,
    min(expires_at) AS expires_at,
    sum(count(*)) OVER (PARTITION BY offsets_partition, group_id) AS offset_count,
    row_number() OVER (PARTITION BY offsets_partition, group_id ORDER BY min(expires_at), reason) AS place
  FROM {expiring} AS expiring
  GROUP BY audit_id, as_of, retention_ms, offsets_partition, group_id, group_type, state, reason
) AS by_reason
WHERE place = 1
ORDER BY expires_at, group_id, offsets_partition"""

# The brokers' longest interval between two checks.
CHECK = """
SELECT max(TRY_CAST(value AS BIGINT)) AS ms FROM cluster_facts
WHERE name = 'offsets.retention.check.interval.ms' AND audit_id = (SELECT max(audit_id) FROM cluster_facts)"""


def run(arguments: argparse.Namespace) -> int:
    if isinstance(arguments.until, FromAsOf) and arguments.until < 0:
        raise UsageError("--until is before the last audit: --within 2d, or --until +2d, is two days after it")
    form = None if arguments.output is None else file_format(arguments.output)
    reader, expiring = open_lake(arguments), DECIDED
    until_ms = arguments.until if arguments.within is None else min(reader.as_of_ms + arguments.within, LAST_MS)
    until = None if until_ms is None else to_datetime(until_ms)
    if arguments.retention is not None or arguments.if_empty:
        retention = "NULL" if arguments.retention is None else f"INTERVAL '{arguments.retention / 1000:.3f}' SECOND"
        expiring = f"expiring(:until, {retention}, {arguments.if_empty})"
    folds = arguments.format == "table" and not arguments.offsets
    groups = reader.sql("SELECT group_id, member_count FROM groups") if folds else []
    names, query = (OFFSET_COLUMNS, OFFSETS) if arguments.offsets else (GROUP_COLUMNS, GROUPS)
    found = reader.ask(query.format(columns=", ".join(names), expiring=expiring), {"until": until})
    count = Count()
    rows: Iterable[Mapping[str, Any]] = count.among(found, reader.as_of_ms)
    if form is not None:
        rows = list(rows)
        write_rows(rows, [*map(Column, names)], form, text := io.StringIO())
        write_file(arguments.output, text.getvalue().encode())
    if folds:
        soonest = ("expires_at", "expires_in", "reason")
        rows = folded_for(rows, groups, arguments, soonest, total="offset_count")
    write(rows, names, OFFSETS_SCREEN if arguments.offsets else GROUPS_SCREEN, arguments)
    say(_closing_line(reader, arguments, until, count))
    return fail_if_any(arguments, count.offsets)


def file_format(output: str) -> str:
    """`csv` or `json`, from the file's name. Raises UsageError for another name, or if no file can be written there."""
    form = output.rpartition(".")[2]
    if form not in ("csv", "json"):
        raise UsageError(f"--output {output}: name a file that ends in .csv or .json")
    require_place(output, "expiring.csv")
    return form


class Count:
    """The number of offsets and the groups so far."""

    def __init__(self) -> None:
        self.offsets, self.groups = 0, set[str]()

    def among(self, rows: Iterable[Row], as_of_ms: int) -> Iterator[Row]:
        """The rows, of offsets or of groups, counted as they pass."""
        for row in rows:
            self.offsets += row.get("offset_count", 1)
            self.groups.add(row["group_id"])
            yield row | {"expires_in": expires_in(to_epoch_ms(row["expires_at"]) - as_of_ms)}


def expires_in(duration_ms: int) -> str:
    """`6d 23h`; `now` if the broker removes it at its next check."""
    return "now" if duration_ms <= 0 else format_duration(duration_ms)


def _closing_line(reader: LakeReader, arguments: argparse.Namespace, until: datetime | None, count: Count) -> str:
    by = "" if until is None else f" by {format_utc(until)}"
    expire, if_empty = ("would expire", " if every group were empty") if arguments.if_empty else ("will expire", "")
    retention = format_duration(arguments.retention or reader.last_audit["retention_ms"])
    offsets = f"{counted(count.offsets, 'offset')} of {counted(len(count.groups), 'group')}"
    [check] = reader.sql(CHECK)
    latest = f", at the latest {format_duration(check['ms'])} after EXPIRES-AT" if check["ms"] else ""
    return f"{offsets} {expire}{by}{if_empty}{latest}, retention {retention} ({reader.known_as_of()})"
