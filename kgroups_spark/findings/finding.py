"""Findings: their form, and the closed set of their kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.dataset

from kgroups_spark.package_data import names_in_package, package_text
from kgroups_spark.tables.columns import Condition
from kgroups_spark.words import to_datetime

Severity = Literal["error", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "notice")


class Kind(NamedTuple):
    """A kind of finding. `summary`: the condition that it reports, in a few words."""

    severity: Severity
    summary: str


FIRST_OF_A_GROUP = """
SELECT *, nullif(count(*) OVER of_group - 1, 0) AS others
FROM ({query})
WINDOW of_group AS (PARTITION BY offsets_partition, group_id)
QUALIFY row_number() OVER (of_group ORDER BY {order}) = 1"""


class FindingSql(NamedTuple):
    """A file of `sql/` (findings/finders.py). `tables`: those of which one has a row for each finding, and what it
    meets. `is_of_all`: it looks at all offsets partitions together."""

    kind: Kind
    tables: list[tuple[str, list[Condition]]]
    detail: str
    query: str
    is_of_all: bool

    @classmethod
    def parsed(cls, text: str) -> FindingSql:
        head, query = text.split("\n\n", 1)
        kind, first, *detail = (line.removeprefix("--").strip() for line in head.splitlines())
        severity, by, summary = re.split(" by |: ", kind, maxsplit=2)
        tables = [(name, _conditions(some)) for name, some in re.findall(r"(\w+)(?: \((.+?)\))?(?:, |$)", by)]
        if first.startswith("of a group"):
            query = FIRST_OF_A_GROUP.format(query=query, order=first.removeprefix("of a group the first by "))
        return cls(Kind(severity, summary), tables, " ".join(detail), query, first == "of all partitions")  # type: ignore[arg-type]


def _conditions(text: str) -> list[Condition]:
    found = re.findall(r"(\w+) (?:(==|<=|>=) ([^ ]+)|(is null|is not null))", text)
    return [
        Condition(name, how or null, value if value[:1] == "$" else json.loads(value or "null"))
        for name, how, value, null in found
    ]


_TEXTS = {name: package_text(f"findings/sql/{name}.sql") for name in names_in_package("findings/sql", ".sql")}
SQL = {name: FindingSql.parsed(text) for name, text in _TEXTS.items() if not name.startswith("_")}
VIEWS = {name: text for name, text in _TEXTS.items() if name.startswith("_")}  # that several findings read

# error: something fails or is lost now; warning: it may; notice: worth knowing. The table's rows are in this order.
_ORDER = """
    stale_checkpoint load_would_fail group_in_wrong_partition orphaned_offsets records_lost offset_below_log_start
    partition_assigned_twice duplicate_static_member clean_up_fails hanging_transaction transaction_past_timeout
    offset_skipped offset_rewound offset_beyond_log_end nearing_log_start topic_gone not_progressing negative_offset
    contested_static_member offsets_of_share_group share_delivery_near_limit share_partition_not_progressing
    share_window_full share_records_archiving share_state_without_group unreadable_subscription ghost_member
    partition_targeted_twice target_for_unknown_member member_not_reconciled partition_assigned_to_nobody
    group_record_near_limit assignment_near_limit group_near_size_limit two_open_producers committed_by_non_owner
    commit_time_skew lost_when_emptied expiry_overdue topic_recreated nobody_reads config_without_group commit_storm
    regex_matches_nothing mixed_commits idle_share_group throwaway_group
"""
KINDS: dict[str, Kind] = {name: SQL[name].kind for name in _ORDER.split()}


class Finding(NamedTuple):
    """A row of `findings` without audit_id and severity."""

    finding: str
    detail: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    producer_id: int | None = None
    offsets_partition: int | None = None
    log_offset: int | None = None
    since: datetime | None = None  # the last field: findings_table in audit/result.py

    @classmethod
    def of(cls, name: str, row: Mapping[str, Any], detail: str, **others: Any) -> Finding:
        """A finding on a row of a table: it has the row's columns with the names of its fields, except `others`."""
        return cls(name, detail, **({field: row[field] for field in cls._fields[2:] if field in row} | others))

    @property
    def severity(self) -> Severity:
        return KINDS[self.finding].severity


_NUMBERS = {name: number for number, name in enumerate(KINDS)}
_PLACE = ("offsets_partition", "group_id", "topic", "partition", "member_id", "producer_id", "log_offset")


def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sort key of a row of `findings`: severity, kind (unknown kinds last), group, log offset."""
    place = (row[name] for name in _PLACE)
    kind = row["finding"]
    return (
        _NUMBERS.get(kind, len(KINDS)),
        kind,
        *((value is not None, 0 if value is None else value) for value in place),
    )


# message.max.bytes, the default for a whole batch (ServerLogConfigs.MAX_MESSAGE_SIZE_DEFAULT, 1 MiB and its overhead).
MAX_MESSAGE_BYTES = 1_048_588
# Four fifths of it, which a few more members or topics exceed.
NEAR_LIMIT_BYTES = MAX_MESSAGE_BYTES * 4 // 5
# offsets.retention.check.interval.ms, 10 minutes by default: expiry is no more exact than this.
TIME_OFF_MS = 600_000


# The evidence for findings: tables as an audit leaves them, and facts that it read; no clock, no Spark. Finders ask
# for columns and conditions, so that a reader can leave out the rest.


Row = dict[str, Any]


class Tables(Protocol):
    """The lake's tables, or a stand-in for them."""

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        """These columns of the rows that meet all conditions, in any order."""

    def source(self, name: str, *conditions: Condition) -> pa.Table | pa.dataset.Dataset:
        """At least the rows that meet all conditions, for DuckDB, which reads only what a query needs."""


class LargeRecord(NamedTuple):
    """A record of types 2 to 23 that was read, large enough to be reported; times in epoch ms, None: none."""

    offsets_partition: int
    group_id: str
    record_name: str
    log_offset: int
    log_timestamp: int | None
    size_bytes: int


class TimesOff(NamedTuple):
    """Offset commits of a group whose commit time is not that of the log: their number, and the first one; epoch ms."""

    offsets_partition: int
    group_id: str
    topic: str
    partition: int
    log_offset: int
    commit_timestamp: int
    log_timestamp: int
    commits: int


class TransactionState(NamedTuple):
    """The partitions of `__transaction_state` that were read, and the time up to which (None: up to now)."""

    partitions: frozenset[int] = frozenset()
    known_until: datetime | None = None


@dataclass(frozen=True)
class Evidence:
    """The tables and facts for finders. `known_until`: where the log is complete (nothing later is overdue);
    `known_until_of`: of offsets partitions not given to this audit. `log_starts`: of each partition's log, if known.
    `before`: the last audit's findings. `hidden`: partition, number and span (ms) of offsets above an old
    checkpoint. `lot`: the offsets partitions that are looked at, in a large lake some at a time; none: all."""

    tables: Tables
    audit_id: int
    as_of: datetime
    known_until: datetime
    retention_ms: int
    large_records: Sequence[LargeRecord] = ()
    times_off: Sequence[TimesOff] = ()
    known_until_of: Mapping[int, datetime] = field(default_factory=dict)
    log_starts: Mapping[int, int] = field(default_factory=dict)
    before: Sequence[Row] = ()
    transaction_state: TransactionState = field(default_factory=TransactionState)
    hidden: Sequence[tuple[int, int, int]] = ()
    lot: Sequence[Condition] = ()


def moment(ms: int | None) -> datetime | None:
    """The time of epoch ms; None: there is none, or no datetime can hold it."""
    try:
        return None if ms is None else to_datetime(ms)
    except OverflowError:
        return None
