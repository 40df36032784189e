"""Version rows of groups and members: one where a record really changed the row, none where it only came again.

Members are compared by what the log says of them, not by the completed names of topics, which a later record may add.
Of what is gone only its name stands, and `is_removed`; a group's state is Dead then, as Kafka describes it.
"""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.rows import GroupRow, GroupVersion, MemberVersion
from kgroups_spark.coordinator.topics import Topics

Version = GroupVersion | MemberVersion
# What the rows of members are made of, by member id: values that are replaced and never changed in place.
MemberFacts = dict[str, object]


class Place(NamedTuple):
    """Where the record is that changed something."""

    offsets_partition: int
    log_offset: int
    log_timestamp: int | None


class Before(NamedTuple):
    """A group before a record. `members` is None for all members of `group`, looked up when needed."""

    group: Group | None
    row: tuple[object, ...] | None
    members: MemberFacts


def before(group: Group | None, member_id: str | None) -> Before:
    """What a record about `member_id` (None: about the group) may change."""
    if group is None:
        return Before(None, None, {})
    # A classic group is replaced as a whole by a record, so that its members can still be asked for afterwards.
    members = {} if isinstance(group, ClassicGroup) else member_facts(group, member_id)
    return Before(group, group_columns(group), members)


def changes(start: Before, group: Group | None, member_id: str | None, place: Place, topics: Topics) -> list[Version]:
    """Version rows for what is different now, the group's own first."""
    members_before, members_now = start.members, {} if group is None else member_facts(group, member_id)
    if start.group is not group:
        members_before = {} if start.group is None else member_facts(start.group, None)
        members_now = {} if group is None else member_facts(group, None)
    versions: list[Version] = []
    if group is None:
        if start.group is not None:
            versions.append(removed_group(place, start.group))
    else:
        columns = group_columns(group)
        if columns != start.row:
            versions.append(GroupVersion(*place, False, *columns))  # type: ignore[arg-type]  # the same columns
        for member in members_now:
            if members_before.get(member) != members_now[member]:
                row = group.member_row(place.offsets_partition, member, topics)
                versions.append(MemberVersion(*place, False, *row[1:-2]))  # type: ignore[arg-type]
    group_id = group.group_id if group is not None else start.group.group_id if start.group is not None else ""
    versions += [MemberVersion(*place, True, group_id, gone) for gone in members_before if gone not in members_now]
    return versions


def group_columns(group: Group) -> tuple[object, ...]:
    """The group's columns in `group_versions`."""
    row: GroupRow = group.row(0)
    return (*row[1:16], row.is_misplaced)


def member_facts(group: Group, member_id: str | None) -> MemberFacts:
    """Of one member where it is given, else of all."""
    if isinstance(group, ClassicGroup):
        return group.member_facts
    members = group.members if member_id is None else [member_id] if member_id in group.members else []
    return {known: (group.group_type, group.members[known][:-1], group.target.get(known)) for known in members}


def removed_group(place: Place, group: Group) -> GroupVersion:
    return GroupVersion(
        *place,
        is_removed=True,
        group_id=group.group_id,
        group_type=group.group_type,
        state="Dead",
        is_simple=group.is_simple,
        protocol_type=None,
        protocol=None,
        generation=None,
        group_epoch=None,
        assignment_epoch=None,
        leader=None,
        current_state_timestamp=None,
        state_since=place.log_timestamp,
        member_count=0,
        metadata_hash=None,
        resolved_regex_topics=None,
        is_misplaced=None,
    )
