"""`kgroups expiring`: the committed offsets that expire, with the time and the reason."""

from __future__ import annotations

import argparse
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.errors import UsageError
from kgroups_spark.expiry.clean_up import DECIDED_BY, HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.expiry.group_conditions import GROUP
from kgroups_spark.expiry.matching import NOWHERE, columns_of, rows_among
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import ROWS_AT_ONCE, LakeReader, to_rows
from kgroups_spark.tables.conditions import partitions_in_lots
from kgroups_spark.terminal.options import (
    add_engine_option,
    add_format_option,
    add_lake_option,
    duration_value,
    positive_duration_value,
    time_value,
)
from kgroups_spark.terminal.output import Column, say, until_closed, write_rows
from kgroups_spark.terminal.output_file import require_place, write_file
from kgroups_spark.times import LAST_MS, format_time_for_people, to_datetime, to_epoch_ms

Row = dict[str, Any]

# The number of committed offsets decided together for another retention; an offsets partition is never split.
OFFSETS_AT_ONCE = 250_000

NAME = "expiring"
SUMMARY = "which committed offsets expire, when, and why"
DESCRIPTION = """\
Prints one row for each group that will lose committed offsets if nothing changes after the last audit: how many, the
earliest moment, and the rule. The broker removes them at its first check after that moment. The options for what-if
questions change nothing in the lake; they are arguments of the rules that the audit used."""
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
    parser.add_argument("--fail-if-any", action="store_true", help="exit 4 if there is a row, for alerting")
    parser.add_argument(
        "--output", metavar="FILE", help="write the rows to this file (or URI), too: x.csv, or JSON lines as x.json"
    )
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the offsets that expire. Returns the exit code."""
    form = None if arguments.output is None else file_format(arguments.output)
    reader = open_lake(arguments)
    asked = Asked.of(arguments, reader)
    found = Found()
    rows: Iterable[Row] = found.among(offset_rows(reader, asked) if arguments.offsets else group_rows(reader, asked))
    columns: Sequence[Column] = OFFSET_COLUMNS if arguments.offsets else GROUP_COLUMNS
    stored = [column for column in columns if column.name != "expires_in"]  # for the screen only
    if form is not None:
        rows = list(rows)
        write_rows(rows, stored, form, text := io.StringIO())
        write_file(arguments.output, text.getvalue().encode())
    with until_closed():
        write_rows(rows, columns if arguments.format == "table" else stored, arguments.format)
    say(_closing_line(reader, found, asked))
    return 4 if arguments.fail_if_any and found.offsets else 0


def file_format(output: str) -> str:
    """`csv` or `json`, from the file's name. Raises UsageError for another name, or if no file can be written there."""
    form = output.rpartition(".")[2]
    if form not in ("csv", "json"):
        raise UsageError(f"--output {output}: name a file that ends in .csv or .json")
    require_place(output, "expiring.csv")
    return form


@dataclass(frozen=True)
class Asked:
    """The question in the options. `retention_ms` None: the audit's; `until_ms` None: no limit. Epoch ms and ms."""

    as_of_ms: int
    until_ms: int | None = None
    if_empty: bool = False
    retention_ms: int | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace, reader: LakeReader) -> Asked:
        """The question in these options. A retention equal to the last audit's becomes None."""
        same = arguments.retention == reader.last_audit["retention_ms"]
        until_ms = _until_ms(arguments, reader.as_of_ms)
        return cls(reader.as_of_ms, until_ms, arguments.if_empty, None if same else arguments.retention)


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


def _until_ms(arguments: argparse.Namespace, as_of_ms: int) -> int | None:
    if arguments.within is not None:
        return min(as_of_ms + int(arguments.within), LAST_MS)
    return None if arguments.until is None else int(arguments.until)


def offset_rows(reader: LakeReader, asked: Asked) -> Iterator[Row]:
    """A row for each offset, the soonest first. The engine returns only offsets that expire as asked."""
    if asked.retention_ms is not None:
        # Sorted here, because the moments differ from those in the lake.
        yield from sorted(itertools.chain.from_iterable(decided_again(reader, asked)), key=_soonest_first)
        return
    query = f"{_decisions(asked)} ORDER BY moment, group_id, topic, partition"
    for row in reader.stream(query, _parameters(asked)):
        (offset,) = expiring_offsets([row], asked)
        yield offset


def group_rows(reader: LakeReader, asked: Asked) -> list[Row]:
    """A row for each group: its soonest offset's moment and reason, and the number of offsets; the soonest first."""
    groups: dict[tuple[int, str], Row] = {}
    if asked.retention_ms is None:
        lots = iter([_counted_by_reason(reader, asked)])
    else:
        lots = (expiring_groups(offsets) for offsets in decided_again(reader, asked))
    for row in itertools.chain.from_iterable(lots):
        key = row["offsets_partition"], row["group_id"]
        before = groups.get(key)
        count = row["offset_count"] + (before["offset_count"] if before else 0)
        first = row if before is None or _first_moment(row) < _first_moment(before) else before
        groups[key] = first | {"offset_count": count}
    return sorted(groups.values(), key=lambda row: (row["expires_at"], row["group_id"], row["offsets_partition"]))


def _first_moment(row: Row) -> tuple[datetime, str]:
    return row["expires_at"], row["reason"]


def _counted_by_reason(reader: LakeReader, asked: Asked) -> list[Row]:
    """For each group and reason, the number of offsets and the first moment."""
    reason = "reason"
    if asked.if_empty:
        reason = (
            "CASE WHEN expires_at_if_empty IS NULL OR expires_at_if_empty = expires_at THEN reason "
            "WHEN moment <= :as_of THEN 'retention_passed' ELSE 'within_retention' END"
        )
    same = "audit_id, as_of, retention_ms, offsets_partition, group_id, group_type, state"
    rows = reader.sql(
        f"SELECT {same}, why AS reason, min(moment) AS expires_at, count(*) AS offset_count "
        f"FROM (SELECT *, {reason} AS why FROM ({_decisions(asked)}) AS decided) AS judged GROUP BY {same}, why",
        **_parameters(asked),
        **({"as_of": to_datetime(asked.as_of_ms)} if asked.if_empty else {}),
    )
    return [row | {"expires_in": expires_in(to_epoch_ms(row["expires_at"]) - asked.as_of_ms)} for row in rows]


def _decisions(asked: Asked) -> str:
    """SQL for the rows of offset_expiry that expire as asked, with their `moment` and their group's type and state."""
    moment = "coalesce(expiry.expires_at_if_empty, expiry.expires_at)" if asked.if_empty else "expiry.expires_at"
    until = "" if asked.until_ms is None else f" AND {moment} <= :until"
    return (
        f"SELECT expiry.*, groups.group_type, groups.state, {moment} AS moment FROM offset_expiry AS expiry "
        "LEFT JOIN groups ON groups.offsets_partition = expiry.offsets_partition AND groups.group_id = expiry.group_id "
        f"WHERE {moment} IS NOT NULL{until}"
    )


def _parameters(asked: Asked) -> dict[str, Any]:
    return {} if asked.until_ms is None else {"until": to_datetime(asked.until_ms)}


def decided_again(reader: LakeReader, asked: Asked) -> Iterator[list[Row]]:
    """For another retention: the offsets that expire as asked, in lots. Decisions on the current tables are those of an
    audit with that retention."""
    assert asked.retention_ms is not None
    release = reader.last_audit["release_version"]
    clean_up = CleanUp(asked.as_of_ms, asked.retention_ms, release, reader.audit_id)
    numbers = reader.table_rows("committed_offsets", ["offsets_partition"])["offsets_partition"]
    counts = {each["values"]: each["counts"] for each in numbers.value_counts().to_pylist()}
    for lot in partitions_in_lots(counts, OFFSETS_AT_ONCE):
        tables = {
            name: reader.table_rows(name, columns_needed(name).names, [lot]).cast(columns_needed(name))
            for name in DECIDED_BY
            if name != HELD_GROUPS
        }
        offsets = _with_groups(_with_moment(clean_up.of_offsets(tables), asked), tables["groups"])
        for start in range(0, offsets.num_rows, ROWS_AT_ONCE):
            rows = to_rows(offsets.slice(start, ROWS_AT_ONCE))
            yield expiring_offsets(rows, asked)


def _with_moment(offsets: pa.Table, asked: Asked) -> pa.Table:
    """The offsets that expire as asked."""
    moment = offsets["expires_at"]
    if asked.if_empty:
        moment = pc.coalesce(offsets["expires_at_if_empty"], moment)
    if asked.until_ms is None:
        return offsets.filter(moment.is_valid())
    return offsets.filter(pc.less_equal(moment, pa.scalar(to_datetime(asked.until_ms), moment.type)))


def _with_groups(offsets: pa.Table, groups: pa.Table) -> pa.Table:
    """The offsets with type and state of their groups; null: there is no group."""
    place = rows_among(columns_of(offsets, GROUP), columns_of(groups, GROUP))
    found = groups.select(["group_type", "state"]).take(pa.array(place, mask=place == NOWHERE))
    return offsets.append_column("group_type", found["group_type"]).append_column("state", found["state"])


def expiring_offsets(decisions: Iterable[Row], asked: Asked) -> list[Row]:
    """The offsets that expire as asked, the soonest first. `expires_in` counts from the as-of time. If asked as if the
    groups were empty, moment and reason are those of the group without members."""
    rows = []
    for decision in decisions:
        row = _as_if_empty(decision, asked.as_of_ms) if asked.if_empty else decision
        moment = row["expires_at"]
        if moment is None or (asked.until_ms is not None and to_epoch_ms(moment) > asked.until_ms):
            continue
        rows.append(row | {"expires_in": expires_in(to_epoch_ms(moment) - asked.as_of_ms)})
    return sorted(rows, key=_soonest_first)


def _soonest_first(row: Row) -> tuple[Any, ...]:
    return row["expires_at"], row["group_id"], row["topic"], row["partition"]


def _as_if_empty(decision: Row, as_of_ms: int) -> Row:
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
    """`6d 23h`; `now` if the broker removes it at its next check."""
    return "now" if duration_ms <= 0 else format_duration(duration_ms)


def expiring_groups(offsets: Iterable[Row]) -> list[Row]:
    """A row for each group, from its offsets in order: the first one's moment and reason, and the number of offsets. If
    several reasons apply at that moment, the first by name."""
    groups: dict[tuple[int, str], Row] = {}
    for row in offsets:
        group = groups.setdefault((row["offsets_partition"], row["group_id"]), row | {"offset_count": 0})
        if _first_moment(row) < _first_moment(group):
            group.update(row)
        group["offset_count"] += 1
    return list(groups.values())


def _closing_line(reader: LakeReader, found: Found, asked: Asked) -> str:
    until = "" if asked.until_ms is None else f" by {format_time_for_people(to_datetime(asked.until_ms))} UTC"
    expire = "would expire" if asked.if_empty else "will expire"
    if_empty = " if every group were empty" if asked.if_empty else ""
    retention = format_duration(asked.retention_ms or reader.last_audit["retention_ms"])
    offsets = f"{counted(found.offsets, 'offset')} of {counted(len(found.groups), 'group')}"
    return f"{offsets} {expire}{until}{if_empty}, retention {retention} ({reader.known_as_of()})"
