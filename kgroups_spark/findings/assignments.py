"""Partitions with two owners, committed without an owner, or assigned to a member that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.expiry.matching import NOWHERE, columns_of, rows_among
from kgroups_spark.findings.evidence import Condition, Evidence, Row, by_group, group_of, listed, of_groups
from kgroups_spark.findings.finding import Finding, at
from kgroups_spark.tables.schemas import GROUP, SLOT

# Records of target assignments by member, in consumer, share and streams groups.
TARGET_RECORDS = [7, 13, 21]


class _Held(NamedTuple):
    """Columns of group_members with the assignments of members: structs of partitions, or of tasks."""

    partitions: Sequence[str]
    tasks: Sequence[str]


ASSIGNED = _Held(
    ("assigned_partitions", "pending_revocation_partitions"), ("assigned_tasks", "pending_revocation_tasks")
)
TARGETED = _Held(("target_partitions",), ("target_tasks",))


def partition_assigned_twice(evidence: Evidence) -> Iterator[Finding]:
    """A partition, or a streams group's active task, that two members own now. Partitions pending revocation count.
    Share groups are left out, because their members share partitions."""
    for row, others in _twice(evidence, ASSIGNED):
        more = f", and so {'is' if others == 1 else 'are'} {counted(others, 'more partition')}" if others else ""
        yield Finding.of(
            "partition_assigned_twice",
            row,
            f"{_what(row)} of {row['group_id']} is assigned to {_members(row)}{more}. Both read it, and each "
            "overwrites the other's commits. In a classic group the leader's assignor caused it "
            "(partition.assignment.strategy), in others the coordinator: restart one of the two, and look for a bug "
            "in that release",
        )


def partition_targeted_twice(evidence: Evidence) -> Iterator[Finding]:
    """The same for target assignments."""
    for row, others in _twice(evidence, TARGETED):
        more = f", and {counted(others, 'more partition')} to several members" if others else ""
        yield Finding.of(
            "partition_targeted_twice",
            row,
            f"The target assignment of {row['group_id']} gives {_what(row)} to {_members(row)}{more}. The coordinator "
            "lets one member at a time have it, so the group may never become Stable. A member that joins or leaves "
            "triggers a new assignment",
        )


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
    keys = {group_of(row) for row in values}
    groups = listed(of_groups(evidence.groups.select([*GROUP, "group_type"]), keys))
    modern = {group_of(row) for row in groups if row["group_type"] != "classic"}
    members = listed(of_groups(evidence.members.select(key), keys))
    known = {(*group_of(row), row["member_id"]) for row in members}
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


def committed_by_non_owner(evidence: Evidence) -> Iterator[Finding]:
    """Committed offsets in Stable groups of consumers, of a partition that no member owns, after the last
    change of the group and its members. The log does not record which client committed."""
    changed = _changed(evidence)
    if not changed.num_rows:
        return
    committed = evidence.tables.rows(
        "committed_offsets",
        [*SLOT, "log_offset", "commit_timestamp"],
        Condition("log_offset", ">=", pc.min(changed["changed_at"]).as_py()),
    )
    # A join of all committed offsets would cost ten times as much.
    row = rows_among(columns_of(committed, GROUP), columns_of(changed, GROUP))
    is_late = committed["log_offset"].to_numpy() > changed["changed_at"].to_numpy()[row]
    late = committed.filter(pa.array(is_late & (row != NOWHERE)))
    if not late.num_rows:
        return
    members = evidence.members.filter(pc.is_in(evidence.members["group_id"], late["group_id"].unique()))
    owned = _with_owners(members, _exploded(members, ASSIGNED.partitions))
    foreign = late.join(owned.select(SLOT), SLOT, join_type="left anti")
    for (_, group_id), rows in by_group(listed(foreign)).items():
        first = rows[0]
        more = f" (and for {counted(len(rows) - 1, 'other partition')})" if len(rows) > 1 else ""
        when = "" if first["commit_timestamp"] is None else f" at {at(first['commit_timestamp'])}"
        yield Finding.of(
            "committed_by_non_owner",
            first,
            f"{first['topic']}-{first['partition']}{more} was committed as {group_id}{when}, while the group was "
            "Stable and none of its members owned that partition. Either a member commits a partition that it no "
            "longer owns, or a producer names the group without its generation. The commit overwrites the owner's. "
            "The log does not record who committed: look for manual commits after a rebalance, and pass "
            "groupMetadata() to sendOffsetsToTransaction",
            since=first["commit_timestamp"],
        )


def _changed(evidence: Evidence) -> pa.Table:
    """By group, the log offset of the newest record about it or a member (`changed_at`): Stable groups of consumers in
    which the partitions and topics of all members have names, because only there the owners are known."""
    groups = evidence.groups.select([*GROUP, "group_type", "protocol_type", "state", "log_offset"])
    groups = groups.filter((pc.field("state") == "Stable") & (pc.field("protocol_type") == "consumer"))
    members = evidence.members.select([*GROUP, "member_id", *ASSIGNED.partitions, "log_offset"])
    held = _exploded(members, ASSIGNED.partitions)
    unnamed = members.select(GROUP).take(held.filter(pc.is_null(held["topic"]))["owner"])
    unread = members.filter(pc.is_null(members["assigned_partitions"])).select(GROUP)
    unknown = pa.concat_tables([unnamed, unread])
    places = pa.concat_tables([groups.select([*GROUP, "log_offset"]), members.select([*GROUP, "log_offset"])])
    changed = places.group_by(GROUP).aggregate([("log_offset", "max")]).rename_columns([*GROUP, "changed_at"])
    changed = changed.join(groups.select(GROUP), GROUP, join_type="inner")
    return changed.join(unknown, GROUP, join_type="left anti").filter(pc.is_valid(pc.field("changed_at")))


def _twice(evidence: Evidence, held: _Held) -> Iterator[tuple[Row, int]]:
    """By group, the first partition or task that several members have, with `members`, and the number of others."""
    members = evidence.members
    alone = members.filter(pc.is_valid(members["uses_classic_protocol"]))  # neither share nor streams
    partitions = _exploded(alone, held.partitions)
    tasks = _active_tasks(members, held.tasks)
    several = [*_several(alone, partitions), *_several(members, tasks)]
    for rows in by_group(sorted(several, key=_order)).values():
        yield rows[0], len(rows) - 1


def _order(row: Row) -> tuple[Any, ...]:
    return (*group_of(row), row["topic"] or "", row["thing"], row["partition"])


def _several(members: pa.Table, held: pa.Table) -> list[Row]:
    """The rows of `held` that several members have, one for each partition or task of a group, with `members`."""
    if not held.num_rows:
        return []
    # Counting numbers is cheap, and a partition or task with one owner is no finding.
    group = rows_among(columns_of(members, GROUP), columns_of(members, GROUP))
    thing = held["thing"].combine_chunks().dictionary_encode(null_encoding="encode").indices
    numbers = pa.table(
        {"group": pa.array(group[held["owner"].to_numpy()]), "thing": thing, "partition": held["partition"]}
    )
    counts = numbers.group_by(numbers.column_names).aggregate([([], "count_all")])["count_all"]
    if not pc.any(pc.greater(counts, 1)).as_py():
        return []
    aggregates: list[Any] = [
        ("member_id", "count_distinct"),
        ("member_id", "list"),
        ("topic", "min"),
        ("log_offset", "max"),
    ]
    things = _with_owners(members, held).group_by([*GROUP, "thing", "partition"]).aggregate(aggregates)
    rows = listed(things.filter(pc.field("member_id_count_distinct") > 1))
    for row in rows:
        members = sorted(set(row["member_id_list"]))
        row |= {"topic": row["topic_min"], "members": members, "member_id": members[-1]}
        row["log_offset"] = row["log_offset_max"]
    return rows


def _exploded(members: pa.Table, columns: Sequence[str]) -> pa.Table:
    """One row for each partition that a member has. `owner`: the member's row; `thing`: the id of the partition's
    topic, or its name if the id is unknown."""
    parts = []
    for column in columns:
        owner, flat = _flat(members, column)
        topic, topic_id = pc.struct_field(flat, "topic"), pc.struct_field(flat, "topic_id")
        parts.append(_held(owner, pc.coalesce(topic_id, topic), topic, flat))
    return pa.concat_tables(parts)


def _active_tasks(members: pa.Table, columns: Sequence[str]) -> pa.Table:
    """One row for each active task that a member of a streams group has; a subtopology has no topic name."""
    parts = []
    for column in columns:
        owner, flat = _flat(members, column)
        part = _held(owner, pc.struct_field(flat, "subtopology_id"), pa.nulls(len(flat), pa.string()), flat)
        parts.append(part.filter(pc.equal(pc.struct_field(flat, "role"), "active")))
    return pa.concat_tables(parts)


def _flat(members: pa.Table, column: str) -> tuple[pa.Array, pa.Array]:
    """The member's row of each element of a column of lists, and the elements."""
    lists = members[column].combine_chunks()
    return pc.list_parent_indices(lists), pc.list_flatten(lists)


def _held(owner: pa.Array, thing: pa.Array, topic: pa.Array, flat: pa.Array) -> pa.Table:
    return pa.table({"owner": owner, "thing": thing, "topic": topic, "partition": pc.struct_field(flat, "partition")})


def _with_owners(members: pa.Table, held: pa.Table) -> pa.Table:
    """The rows with the names of their members, and the log offsets of the members' records."""
    owners = members.select([*GROUP, "member_id", "log_offset"]).take(held["owner"])
    return pa.table(
        [*owners.columns, *held.drop_columns("owner").columns], [*owners.column_names, *held.column_names[1:]]
    )


def _what(row: Row) -> str:
    return f"{row['thing'] if row['topic'] is None else row['topic']}-{row['partition']}"


def _members(row: Row) -> str:
    members = row["members"]
    return " and ".join(members) if len(members) == 2 else f"{len(members)} members ({members[0]} among them)"
