"""Version rows of groups and members: one if a record changed the row, none if the record only repeats it.

Members are compared by their fields in the log, not by completed topic names, which a later record may add. A removed
row has only its name and `is_removed`; the state of a removed group is Dead, as in Kafka's describe.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.rows import GroupRow, GroupVersion, MemberRow, MemberVersion
from kgroups_spark.coordinator.topics import Topics

# The sources of members' rows, by member id: values that are replaced and never changed in place.
MemberFacts = dict[str, object]


class Place(NamedTuple):
    """The position of a record that changed a row. `log_timestamp` is in ms, None if the record has none."""

    offsets_partition: int
    log_offset: int
    log_timestamp: int | None


def _shared(row: tuple[str, ...], version: tuple[str, ...]) -> itemgetter[object]:
    """Picks the columns of a row that its versions have after their place and `is_removed`, in their order."""
    return itemgetter(*(row.index(name) for name in version if name in row and name not in Place._fields))


_of_group = _shared(GroupRow._fields, GroupVersion._fields)
_of_member = _shared(MemberRow._fields, MemberVersion._fields)


class MemberVersions(NamedTuple):
    """Version rows of several members of a classic group at one place, where members are decoded on demand.

    `numbers`: indexes, in the value of `group`, of members that joined or changed. `gone`: ids of members that left.
    """

    offsets_partition: int
    log_offset: int
    log_timestamp: int | None
    group_id: str
    group: ClassicGroup | None
    numbers: list[int]
    gone: list[str]

    def removed(self) -> Iterator[MemberVersion]:
        return (MemberVersion(*self[:3], True, self.group_id, member_id) for member_id in self.gone)


Version = GroupVersion | MemberVersion | MemberVersions


class Before(NamedTuple):
    """A group before a record, with the members that the record may change in place."""

    group: Group | None
    row: tuple[object, ...] | None
    members: MemberFacts


def before(group: Group | None, member_id: str | None) -> Before:
    """The rows that a record about `member_id` (None: about the group) may change."""
    if group is None:
        return Before(None, None, {})
    # A record replaces a classic group as a whole, so the old members are still available afterwards.
    members = {} if isinstance(group, ClassicGroup) else member_facts(group, member_id)
    return Before(group, group_columns(group), members)


def changes(start: Before, group: Group | None, member_id: str | None, place: Place, topics: Topics) -> list[Version]:
    """Version rows for the differences from `start`, the group's own first."""
    members_before, members_now = start.members, start.members
    if start.group is not group:
        members_before, members_now = _facts_to_compare(start.group, group)
    elif group is not None and not isinstance(group, ClassicGroup):
        members_now = member_facts(group, member_id)
    versions: list[Version] = []
    if group is None:
        if start.group is not None:
            versions.append(removed_group(place, start.group))
    else:
        columns = group_columns(group)
        if columns != start.row:
            versions.append(GroupVersion(*place, False, *columns))  # type: ignore[arg-type]  # the same columns
    changed = [member for member in members_now if members_before.get(member) != members_now[member]]
    gone = [member for member in members_before if member not in members_now]
    return versions + _member_versions(start.group, group, changed, gone, place, topics)


def _member_versions(
    start: Group | None, group: Group | None, changed: list[str], gone: list[str], place: Place, topics: Topics
) -> list[Version]:
    group_id = group.group_id if group is not None else start.group_id if start is not None else ""
    if isinstance(group, ClassicGroup) and group.members_on_demand is not None:
        numbers = [group.member_numbers[member] for member in changed]
        return [MemberVersions(*place, group_id, group, numbers, gone)] if numbers or gone else []
    if gone and isinstance(start, ClassicGroup) and start.members_on_demand is not None:
        removed: list[Version] = [MemberVersions(*place, group_id, None, [], gone)]
    else:
        removed = [MemberVersion(*place, True, group_id, member) for member in gone]
    if group is None:
        return removed
    rows = (group.member_row(place.offsets_partition, member, topics) for member in changed)
    return [MemberVersion(*place, False, *_of_member(row)) for row in rows] + removed


def _facts_to_compare(one: Group | None, other: Group | None) -> tuple[MemberFacts, MemberFacts]:
    """All members of both groups: their fingerprints if both groups have them, otherwise their fields in the log."""
    if not (_has_fingerprints(one) and _has_fingerprints(other)):
        one_facts, other_facts = ({} if group is None else member_facts(group, None) for group in (one, other))
        return one_facts, other_facts
    old, new = _numbers(one), _numbers(other)
    if old.keys().isdisjoint(new):  # nothing to compare, and fingerprints cost something
        return dict(old), dict(new)
    return _fingerprints(one), _fingerprints(other)


def _has_fingerprints(group: Group | None) -> bool:
    """Whether all members have a fingerprint; true without members."""
    if group is None or not isinstance(group, ClassicGroup):
        return group is None
    return group.members_on_demand is not None or not group.member_numbers


def _numbers(group: Group | None) -> dict[str, int]:
    return group.member_numbers if isinstance(group, ClassicGroup) else {}


def _fingerprints(group: Group | None) -> MemberFacts:
    return dict(group.member_fingerprints) if isinstance(group, ClassicGroup) else {}


def group_columns(group: Group) -> tuple[object, ...]:
    columns: tuple[object, ...] = _of_group(group.row(0))
    return columns


def member_facts(group: Group, member_id: str | None) -> MemberFacts:
    """The sources of the rows of one member, or (None) of all; empty if there is no such member."""
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
        state_since=place.log_timestamp,
    )
