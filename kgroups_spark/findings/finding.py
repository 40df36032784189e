"""Findings: their form, and the closed set of their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from kgroups_spark.package_data import names_in_package, package_text
from kgroups_spark.times import format_utc

Severity = Literal["error", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "notice")


class Kind(NamedTuple):
    """A kind of finding. `summary`: the condition that it reports, in a few words."""

    severity: Severity
    summary: str


class FindingSql(NamedTuple):
    """A file of `sql/` (by_sql.py)."""

    kind: Kind
    detail: str
    query: str

    @classmethod
    def parsed(cls, text: str) -> FindingSql:
        head, query = text.split("\n\n", 1)
        kind, _, *detail = (line.removeprefix("--").strip() for line in head.splitlines())
        return cls(Kind(*kind.split(": ", 1)), " ".join(detail), query)  # type: ignore[arg-type]


_TEXTS = {name: package_text(f"findings/sql/{name}.sql") for name in names_in_package("findings/sql", ".sql")}
SQL = {name: FindingSql.parsed(text) for name, text in _TEXTS.items() if not name.startswith("_")}
VIEWS = {name: text for name, text in _TEXTS.items() if name.startswith("_")}  # that several findings read

# error: something fails or is lost now; warning: it may; notice: worth knowing. The table's rows are in this order.
_IN_PYTHON = {
    "hanging_transaction": Kind("error", "offsets are held by a transaction that should have ended"),
}
_ORDER = """
    stale_checkpoint load_would_fail group_in_wrong_partition orphaned_offsets offset_below_log_start
    partition_assigned_twice duplicate_static_member clean_up_fails hanging_transaction offset_skipped offset_rewound
    offset_beyond_log_end negative_offset contested_static_member offsets_of_share_group share_delivery_near_limit
    share_partition_not_progressing share_state_without_group unreadable_subscription ghost_member
    partition_targeted_twice target_for_unknown_member member_not_reconciled group_record_near_limit
    two_open_producers committed_by_non_owner commit_time_skew lost_when_emptied expiry_overdue topic_recreated
    commit_storm regex_matches_nothing mixed_commits idle_share_group throwaway_group
"""
KINDS: dict[str, Kind] = {name: SQL[name].kind if name in SQL else _IN_PYTHON[name] for name in _ORDER.split()}


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
    since: datetime | None = None  # the last field: findings_table in audit/findings.py

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
    """The sort key of a row of `findings`: severity and kind, then group and log offset. Kinds that this version does
    not know are last."""
    place = (row[name] for name in _PLACE)
    kind = row["finding"]
    return (
        _NUMBERS.get(kind, len(KINDS)),
        kind,
        *((value is not None, 0 if value is None else value) for value in place),
    )


def at(moment: datetime) -> str:
    """`2026-11-16 06:30:00 UTC`: the form of times in details."""
    return format_utc(moment)


def tool(name: str, arguments: str) -> str:
    """A command line of one of Kafka's tools."""
    return f"{name}.sh --bootstrap-server HOST:PORT {arguments}"
