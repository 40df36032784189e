"""Findings: their form, and the closed set of their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from kgroups_spark.times import format_utc

Severity = Literal["error", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "notice")


class Kind(NamedTuple):
    """A kind of finding. `summary`: the condition that it reports, in a few words."""

    severity: Severity
    summary: str


# error: something fails or is lost now; warning: it may; notice: worth knowing. The table's rows are in this order.
KINDS: dict[str, Kind] = {
    "load_would_fail": Kind("error", "a coordinator of the chosen release would refuse to load the partition"),
    "group_in_wrong_partition": Kind("error", "a group is in the wrong partition: its name hashes to another"),
    "orphaned_offsets": Kind("error", "committed offsets of a group that does not exist"),
    "partition_assigned_twice": Kind("error", "two members of a group have the same partition"),
    "duplicate_static_member": Kind("error", "two members of a group have one group.instance.id"),
    "clean_up_fails": Kind("error", "offsets of a share group break the clean-up: nothing in the partition expires"),
    "hanging_transaction": Kind("error", "offsets are held by a transaction that should have ended"),
    "offsets_of_share_group": Kind("warning", "a share group has committed offsets"),
    "share_delivery_near_limit": Kind("warning", "a share group's records that one more failed delivery archives"),
    "share_partition_not_progressing": Kind("warning", "a share group has records waiting but makes no progress"),
    "share_state_without_group": Kind("warning", "state of a share group that does not exist"),
    "unreadable_subscription": Kind("warning", "a member's subscription cannot be read: nothing of the group expires"),
    "ghost_member": Kind("warning", "a member with no live client"),
    "partition_targeted_twice": Kind("warning", "one partition is in the target assignment of two members"),
    "target_for_unknown_member": Kind("warning", "partitions are assigned to a member that does not exist"),
    "member_not_reconciled": Kind("warning", "a member does not reach its target assignment"),
    "group_record_near_limit": Kind("warning", "a group's record is close to the broker's size limit"),
    "two_open_producers": Kind("warning", "two open transactions hold an offset of one partition"),
    "committed_by_non_owner": Kind("warning", "a commit for a partition that no member owned"),
    "commit_time_skew": Kind("warning", "commit times that differ from the log's"),
    "lost_when_emptied": Kind("warning", "offsets lost as soon as the last member leaves"),
    "expiry_overdue": Kind("warning", "offsets that should have expired"),
    "topic_recreated": Kind("warning", "committed offsets of a topic that was deleted and created again"),
    "commit_storm": Kind("warning", "a group commits far more often than it needs to"),
    "regex_matches_nothing": Kind("notice", "a subscribed regular expression that matches no topic"),
    "mixed_commits": Kind("notice", "one partition is committed both in transactions and outside them"),
    "idle_share_group": Kind("notice", "an empty share group, which never expires"),
    "throwaway_group": Kind("notice", "many empty groups whose names differ only by a generated suffix"),
}


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
