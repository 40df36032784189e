"""The columns of `kgroups describe` on the screen, by group type, with the names and the order of Kafka's tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kgroups_spark.reading.group_facts import Row, What
from kgroups_spark.terminal.display import list_items, words
from kgroups_spark.terminal.output import Column


def _verbose(rows: Sequence[Row], verbose: bool) -> bool:
    return verbose


def _short(rows: Sequence[Row], verbose: bool) -> bool:
    return not verbose


def _has_static_members(rows: Sequence[Row], verbose: bool) -> bool:
    return any(row["group_instance_id"] for row in rows)


def _is_mixed(rows: Sequence[Row], verbose: bool) -> bool:
    """Whether the group has members of both protocols."""
    return verbose and len({row["upgraded"] for row in rows}) > 1


class _Shown(NamedTuple):
    """A column of a table on the screen, the types of groups that have it, and its condition (None: always)."""

    column: Column
    group_types: tuple[str, ...]
    when: Callable[[Sequence[Row], bool], bool] | None = None


_CONSUMER, _SHARE, _STREAMS = ("classic", "consumer"), ("share",), ("streams",)
_ALL = (*_CONSUMER, *_SHARE, *_STREAMS)
_GROUP = _Shown(Column("group_id", "GROUP"), _ALL)

# Columns and their order as in 4.3.1: printOffsets, printMembers and printStates of ConsumerGroupCommand,
# ShareGroupCommand and StreamsGroupCommand. The short form of StreamsGroupCommand has only the lag, which is seldom
# known, so we use the long one.
_SHOWN: dict[What, tuple[_Shown, ...]] = {
    "offsets": (
        _GROUP,
        _Shown(Column("topic", "TOPIC"), _ALL),
        _Shown(Column("partition", "PARTITION"), _ALL),
        _Shown(Column("leader_epoch", "LEADER-EPOCH"), (*_CONSUMER, *_SHARE), _verbose),
        _Shown(Column("committed_offset", "START-OFFSET"), _SHARE),
        _Shown(Column("committed_offset", "CURRENT-OFFSET"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("leader_epoch", "LEADER-EPOCH"), _STREAMS),
        _Shown(Column("log_end_offset", "LOG-END-OFFSET"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("lag", "LAG"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("lag", "OFFSET-LAG"), _STREAMS),
        _Shown(Column("owner_member_id", "CONSUMER-ID"), _CONSUMER),
        _Shown(Column("owner_client_host", "HOST"), _CONSUMER),
        _Shown(Column("owner_client_id", "CLIENT-ID"), _CONSUMER),
        _Shown(Column("expires_at", "EXPIRES-AT (UTC)"), (*_CONSUMER, *_STREAMS)),
        _Shown(Column("pending_offsets", "PENDING"), (*_CONSUMER, *_STREAMS)),
    ),
    "members": (
        _GROUP,
        _Shown(Column("assignment_epoch", "TARGET-ASSIGNMENT-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("topology_epoch", "TOPOLOGY-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("member_id", "CONSUMER-ID"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("member_id", "MEMBER"), _STREAMS),
        _Shown(Column("group_instance_id", "GROUP-INSTANCE-ID"), _CONSUMER, _has_static_members),
        _Shown(Column("member_protocol", "MEMBER-PROTOCOL"), _STREAMS, _verbose),
        _Shown(Column("member_epoch", "MEMBER-EPOCH"), _STREAMS, _verbose),
        _Shown(Column("process_id", "PROCESS"), _STREAMS),
        _Shown(Column("client_host", "HOST"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("client_id", "CLIENT-ID"), _ALL),
        _Shown(Column("partition_count", "#PARTITIONS"), (*_CONSUMER, *_SHARE)),
        _Shown(Column("member_epoch", "MEMBER-EPOCH"), _SHARE, _verbose),
        _Shown(Column("current_assignment", "ASSIGNMENT", list_items), _SHARE),
        _Shown(Column("tasks", "ASSIGNMENTS", words), _STREAMS, _short),
        _Shown(Column("all_tasks", "ASSIGNMENTS", words), _STREAMS, _verbose),
        _Shown(Column("member_epoch", "CURRENT-EPOCH"), _CONSUMER, _verbose),
        _Shown(Column("current_assignment", "CURRENT-ASSIGNMENT", list_items), _CONSUMER, _verbose),
        _Shown(Column("assignment_epoch", "TARGET-EPOCH"), _CONSUMER, _verbose),
        _Shown(Column("target_assignment", "TARGET-ASSIGNMENT", list_items), _CONSUMER, _verbose),
        _Shown(Column("upgraded", "UPGRADED"), ("consumer",), _is_mixed),
    ),
    "state": (
        _GROUP,
        _Shown(Column("coordinator", "COORDINATOR (ID)"), _ALL),
        _Shown(Column("strategy", "ASSIGNMENT-STRATEGY"), _CONSUMER),
        _Shown(Column("state", "STATE"), _ALL),
        _Shown(Column("group_epoch", "GROUP-EPOCH"), _ALL, _verbose),
        _Shown(Column("assignment_epoch", "TARGET-ASSIGNMENT-EPOCH"), (*_CONSUMER, *_STREAMS), _verbose),
        _Shown(Column("assignment_epoch", "ASSIGNMENT-EPOCH"), _SHARE, _verbose),
        _Shown(Column("member_count", "#MEMBERS"), _ALL),
        _Shown(Column("expires_at", "EXPIRES-AT (UTC)"), _ALL),
        _Shown(Column("pending_count", "PENDING"), _ALL),
    ),
}


def table_columns(what: What, group_type: str | None, rows: Sequence[Row], verbose: bool) -> tuple[Column, ...]:
    """The columns of a table of such groups; group_type None: the group is gone."""
    its = group_type or "classic"
    return tuple(
        each.column
        for each in _SHOWN[what]
        if its in each.group_types and (each.when is None or each.when(rows, verbose))
    )
