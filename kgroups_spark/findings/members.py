"""Findings that look up records in history for rows that they have found: members that cannot exist. DuckDB would read
all of history for such a join."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import HOUR_MS
from kgroups_spark.findings.evidence import Condition, Evidence, Row, by_group, group_of, listed
from kgroups_spark.findings.finding import Finding, at
from kgroups_spark.tables.schemas import GROUP

# The coordinator removes a static member that is away for its session timeout: 45 s, at most 60 s (defaults of
# group.consumer.(max.)session.timeout.ms).
AWAY_MS = HOUR_MS
AWAY = -2  # the epoch of such a member (ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH)
# Records of target assignments by member, in consumer, share and streams groups.
TARGET_RECORDS = [7, 13, 21]


def ghost_member(evidence: Evidence) -> Iterator[Finding]:
    """A member known only from its assignment (T35), or a static one that left temporarily and is long overdue
    (T36)."""
    columns = [*GROUP, "member_id", "group_instance_id", "member_epoch", "uses_classic_protocol", "log_offset"]
    no_host = (Condition("client_host", "is null"), Condition("client_host", "==", ""))
    nobody = pa.concat_tables([evidence.tables.rows("group_members", columns, each) for each in no_host])
    found = by_group(listed(nobody.filter(~_IN_CLASSIC_GROUP)))
    for key, its in found.items():
        yield Finding.of(
            "ghost_member",
            its[0],
            f"Member {its[0]['member_id']} of {key[1]}{_others(its)} has an assignment and nothing else: no client, "
            "no host, no subscription. Its record was written after the member was deleted. It sends no heartbeat, "
            "and nobody reads its partitions. The group is not Empty until the coordinator removes this member, so "
            "it is not deleted. A change of the coordinator (kafka-leader-election.sh) starts its session timer",
        )
    away = evidence.tables.rows("group_members", [*columns, "client_host"], Condition("member_epoch", "==", AWAY))
    yield from _away_for_long(evidence, listed(away.filter(pc.field("client_host") != "")))


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


def target_for_unknown_member(evidence: Evidence) -> Iterator[Finding]:
    """A member whose newest target assignment is not a tombstone and whose group exists, but which does not exist
    itself. The finding remains until there is a newer record."""
    key = [*GROUP, "member_id"]
    read = _targets(evidence, Condition("audit_id", "==", evidence.audit_id))
    if before := sorted({row["group_id"] for row in evidence.found_before("target_for_unknown_member")}):
        # A finding names one member of its group; there may be others.
        earlier = Condition("audit_id", "<=", evidence.audit_id - 1)
        read = pa.concat_tables([read, _targets(evidence, earlier, Condition("group_id", "in", before))])
    if not read.num_rows:
        return
    last = read.join(read.group_by(key).aggregate([("log_offset", "max")]), key).filter(
        pc.field("log_offset") == pc.field("log_offset_max")
    )
    values = [row for row in listed(last) if row["value_version"] is not None]
    if not values:
        return
    named = Condition("group_id", "in", sorted({row["group_id"] for row in values}))
    groups = listed(evidence.tables.rows("groups", [*GROUP, "group_type"], named))
    modern = {group_of(row) for row in groups if row["group_type"] != "classic"}
    known = {(*group_of(row), row["member_id"]) for row in listed(evidence.tables.rows("group_members", key, named))}
    unknown = [row for row in values if group_of(row) in modern and (*group_of(row), row["member_id"]) not in known]
    for (_, group_id), rows in by_group(unknown).items():
        first = min(rows, key=lambda row: str(row["member_id"]))
        more = f" (and for {counted(len(rows) - 1, 'other')})" if len(rows) > 1 else ""
        yield Finding.of(
            "target_for_unknown_member",
            first,
            f"The target assignment of {group_id} assigns partitions to {first['member_id']}{more}, which is not a "
            "member. Nobody reads them until the next assignment. A coordinator that loads this log rejects the "
            "group's tombstone while the assignment exists. A member that joins triggers a new assignment",
            since=first["log_timestamp"],
        )


def _targets(evidence: Evidence, *conditions: Condition) -> pa.Table:
    """The records of target assignments by member."""
    columns = [*GROUP, "member_id", "log_offset", "log_timestamp", "value_version"]
    return evidence.tables.rows("group_records", columns, *conditions, Condition("record_type", "in", TARGET_RECORDS))


def _others(its: list[Row]) -> str:
    return "" if len(its) == 1 else f" (and {counted(len(its) - 1, 'other member')})"
