"""Members that cannot exist, that make no progress, or whose subscription cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import HOUR_MS, format_duration
from kgroups_spark.findings.evidence import Condition, Evidence, Row, by_group, group_of, listed, of_groups, some
from kgroups_spark.findings.finding import Finding, at
from kgroups_spark.tables.schemas import GROUP

# The coordinator removes a static member that is away for its session timeout: 45 s, at most 60 s (defaults of
# group.consumer.(max.)session.timeout.ms).
AWAY_MS = HOUR_MS
AWAY = -2  # the epoch of such a member (ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH)

# max.poll.interval.ms, which a consumer sends as its rebalance timeout. Used for members without one.
DEFAULT_REBALANCE_TIMEOUT_MS = 300_000


def unreadable_subscription(evidence: Evidence) -> Iterator[Finding]:
    """A member of a Stable classic group of protocol type consumer whose subscription no coordinator can parse
    (T15)."""
    members = evidence.members
    unknown = members.filter(pc.field("subscribed_topics").is_null() & (pc.field("uses_classic_protocol") == True))  # noqa: E712
    if not unknown.num_rows:
        return
    groups = {
        group_of(row): row
        for row in _groups(evidence, ["group_type", "protocol_type", "state", "state_since"], unknown)
        if (row["group_type"], row["protocol_type"], row["state"]) == ("classic", "consumer", "Stable")
    }
    for key, its in by_group(listed(unknown.select([*GROUP, "member_id", "client_id", "log_offset"]))).items():
        if key in groups:
            yield Finding.of(
                "unreadable_subscription",
                its[0],
                f"The subscription of member {its[0]['member_id']} (client {its[0]['client_id']}) of "
                f"{key[1]}{_others(its)} cannot be parsed. So the coordinator does not know the group's topics, and "
                "none of its offsets expire, not even those of topics that are no longer read. Find out which client "
                "library wrote it, and update that",
                since=groups[key]["state_since"],
            )


def ghost_member(evidence: Evidence) -> Iterator[Finding]:
    """A member known only from its assignment (T35), or a static one that left temporarily and is long overdue
    (T36)."""
    members = evidence.members
    nobody = ~_IN_CLASSIC_GROUP & (pc.coalesce(pc.field("client_host"), pc.scalar("")) == "")
    found = by_group(listed(members.filter(nobody).select([*GROUP, "member_id", "log_offset"])))
    for key, its in found.items():
        yield Finding.of(
            "ghost_member",
            its[0],
            f"Member {its[0]['member_id']} of {key[1]}{_others(its)} has an assignment and nothing else: no client, "
            "no host, no subscription. Its record was written after the member was deleted. It sends no heartbeat, "
            "and nobody reads its partitions. The group is not Empty until the coordinator removes this member, so "
            "it is not deleted. A change of the coordinator (kafka-leader-election.sh) starts its session timer",
        )
    away = members.filter((pc.field("member_epoch") == AWAY) & ~nobody)
    yield from _away_for_long(evidence, listed(away.select([*GROUP, "member_id", "group_instance_id", "log_offset"])))


# A member of a classic group has no epoch. A member of a consumer group has one, even if it uses the classic protocol.
_IN_CLASSIC_GROUP = (
    pc.field("uses_classic_protocol").is_valid()
    & pc.field("uses_classic_protocol")
    & pc.field("member_epoch").is_null()
)


def _away_for_long(evidence: Evidence, away: list[Row]) -> Iterator[Finding]:
    if not away:
        return
    since = _times(evidence, away)
    limit = evidence.before_until(AWAY_MS)
    dated = [row | {"since": since.get((*group_of(row), row["member_id"]))} for row in away]
    late = [row for row in dated if row["since"] is not None and row["since"] <= limit]
    if late and evidence.known_until_of:
        late = evidence.known(pa.Table.from_pylist(late), "since", AWAY_MS).to_pylist()
    for key, its in by_group(late).items():
        first = its[0]
        yield Finding.of(
            "ghost_member",
            first,
            f"Static member {first['group_instance_id']} of {key[1]}{_others(its)} left for a while at "
            f"{at(first['since'])} and has not returned; its session should have ended within a minute. Its "
            "partitions are kept for it, and nobody reads them. Start an instance with that name and close it for "
            "good, or find out why the coordinator keeps it",
        )


def member_not_reconciled(evidence: Evidence) -> Iterator[Finding]:
    """Members without all of their target assignment, in a group that has been Reconciling for twice their rebalance
    timeout. A coordinator removes them after one."""
    groups = evidence.groups
    stuck = (pc.field("state") == "Reconciling") & (pc.field("state_since") <= evidence.known_until)
    plain = groups.drop_columns(["resolved_regex_topics"])
    reconciling = {group_of(row): row for row in listed(plain.filter(stuck))}
    if not reconciling:
        return
    columns = ["member_id", "client_id", "client_host", "member_epoch", "member_state", "rebalance_timeout_ms"]
    its_members = of_groups(evidence.members.select([*GROUP, *columns, "log_offset"]), reconciling)
    for key, members in by_group(listed(its_members)).items():
        group, known_until = reconciling[key], evidence.known_until_of.get(key[0], evidence.known_until)
        late = [member for member in members if _is_late(member, group, known_until)]
        if not late:
            continue
        # A member that waits for another member to release partitions is not the cause.
        first = next((member for member in late if not _state(member).startswith("UNRELEASED")), late[0])
        yield Finding.of(
            "member_not_reconciled",
            first,
            f"Member {first['member_id']} (client {first['client_id']}, {first['client_host']}) of {key[1]} "
            f"{_how_far(first, group)}{_others(late)}; the group has been Reconciling since "
            f"{at(group['state_since'])}, and its rebalance timeout is {format_duration(_timeout_ms(first))}. Its "
            "pending partitions are unread, or still read by the previous owner. Check whether its poll loop is "
            "stuck; a coordinator should have removed it",
            since=group["state_since"],
        )


def duplicate_static_member(evidence: Evidence) -> Iterator[Finding]:
    """Two members of a consumer or streams group with the same group.instance.id. (In a classic group no coordinator
    loads such a record: load_would_fail.)"""
    members = evidence.members.select([*GROUP, "member_id", "group_instance_id", "log_offset"])
    static = members.filter(pc.field("group_instance_id").is_valid())
    if not static.num_rows:
        return
    aggregates: list[Any] = [("member_id", "list"), ("log_offset", "max"), ([], "count_all")]
    instances = static.group_by([*GROUP, "group_instance_id"]).aggregate(aggregates)
    several = instances.filter(pc.field("count_all") > 1).sort_by("group_instance_id")
    for key, rows in by_group(listed(several)).items():
        first = min(rows, key=lambda row: row["group_instance_id"])
        ids = sorted(first["member_id_list"])
        more = f", and the same is true of {counted(len(rows) - 1, 'other name')}" if len(rows) > 1 else ""
        yield Finding.of(
            "duplicate_static_member",
            first,
            f"group.instance.id {first['group_instance_id']} of {key[1]} belongs to {len(ids)} members "
            f"({some(ids)}){more}. A coordinator keeps one member of that name. It fences or forgets the others, and "
            "nobody reads their partitions. Give each instance its own name",
            member_id=ids[-1],
            log_offset=first["log_offset_max"],
        )


def regex_matches_nothing(evidence: Evidence) -> Iterator[Finding]:
    """A regular expression that was resolved to no topic (type 16). One that is not resolved yet is not reported."""
    members = evidence.members.select([*GROUP, "member_id", "subscribed_regex"])
    by_regex = members.filter(pc.field("subscribed_regex").is_valid())
    if not by_regex.num_rows:
        return
    resolved = {group_of(row): row for row in _groups(evidence, ["resolved_regex_topics", "log_offset"], by_regex)}
    for key, its in by_group(listed(by_regex)).items():
        topics = (resolved[key]["resolved_regex_topics"] if key in resolved else None) or {}
        empty = [member for member in its if topics.get(member["subscribed_regex"]) == []]
        if empty:
            expressions = some(member["subscribed_regex"] for member in empty)
            yield Finding.of(
                "regex_matches_nothing",
                empty[0],
                f"{counted(len(empty), 'member')} of {key[1]} subscribe{'s' if len(empty) == 1 else ''} to "
                f"{expressions}, which matches no topic: nothing is read. The expression is RE2's and must match the "
                "whole name, and topics that the member may not describe are left out; check both",
                log_offset=resolved[key]["log_offset"],
            )


def _groups(evidence: Evidence, columns: list[str], members: pa.Table) -> list[Row]:
    keys = set(zip(members["offsets_partition"].to_pylist(), members["group_id"].to_pylist(), strict=True))
    return listed(of_groups(evidence.groups.select([*GROUP, *columns]), keys))


def _times(evidence: Evidence, members: list[Row]) -> dict[tuple[int, str, str], datetime]:
    """Log times of the members' newest records, by offsets partition, group and member."""
    found = evidence.tables.rows(
        "group_member_versions",
        [*GROUP, "member_id", "log_offset", "log_timestamp"],
        Condition("offsets_partition", "in", sorted({row["offsets_partition"] for row in members})),
        Condition("log_offset", "in", sorted({row["log_offset"] for row in members})),
    )
    places = {(*group_of(row), row["member_id"], row["log_offset"]) for row in members}
    return {
        (*group_of(row), row["member_id"]): row["log_timestamp"]
        for row in found.to_pylist()
        if (*group_of(row), row["member_id"], row["log_offset"]) in places and row["log_timestamp"] is not None
    }


def _is_late(member: Row, group: Row, known_until: datetime) -> bool:
    if not member["client_host"] or member["member_epoch"] == AWAY:  # ghost_member reports these
        return False
    is_there = member["member_state"] == "STABLE" and member["member_epoch"] == group["assignment_epoch"]
    patience = timedelta(milliseconds=2 * _timeout_ms(member))
    return not is_there and bool(group["state_since"] <= known_until - patience)


def _timeout_ms(member: Row) -> int:
    timeout: int | None = member["rebalance_timeout_ms"]
    return DEFAULT_REBALANCE_TIMEOUT_MS if timeout is None else timeout


def _how_far(member: Row, group: Row) -> str:
    if _state(member).startswith("UNREVOKED"):
        return "does not release partitions that it must release"
    if _state(member).startswith("UNRELEASED"):
        return "waits for partitions that another member has not released"
    if member["member_epoch"] is None:
        return f"has no assignment at all, the group's is at epoch {group['assignment_epoch']}"
    return f"is at epoch {member['member_epoch']}, the assignment at {group['assignment_epoch']}"


def _state(member: Row) -> str:
    """The member's state from its current assignment; empty: no record has it, for example because a streams member has
    only just joined."""
    state: str | None = member["member_state"]
    return state or ""


def _others(its: list[Row]) -> str:
    return "" if len(its) == 1 else f" (and {counted(len(its) - 1, 'other member')})"
