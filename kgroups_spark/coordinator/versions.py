"""Version rows of groups and members: one if a record changed the row. Fields in the log decide, not topic names, which
a later record may add. A removed row has its name and `is_removed`; a removed group is Dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup
from kgroups_spark.coordinator.group_snapshots import SnapshotMembers
from kgroups_spark.coordinator.releases import Release, ReplayFailure, Topics
from kgroups_spark.coordinator.rows import VERSIONED, GroupRow, MemberName, MemberRow
from kgroups_spark.coordinator.share_group import ShareGroup, StreamsGroup

# The group object that a record applies to: the existing one, a new one, or one that replaces it.
#
# The rules are those of Kafka GroupMetadataManager.getOrMaybeCreatePersisted{Consumer,Share,Streams}Group, per release:
#
#     no group                a value creates it; a tombstone is ignored (3.7 to 3.9, and share groups of 4.0: fails)
#     a group of its type     used as it is
#     a simple classic group  replaced by an empty group of the type, by values and tombstones alike (T31), since offset
#                             commits come first. Consumer since 4.0, streams since 4.2.1, share never (T33)
#     any other group         fails

Modern = ConsumerGroup | ShareGroup | StreamsGroup
Group = ClassicGroup | Modern

GROUP_OF_TYPE: dict[int, type[Modern]] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), ConsumerGroup),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), ShareGroup),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), StreamsGroup),
}


def persisted_group(
    groups: dict[str, Group], release: Release, record_type: int, group_id: str, *, is_value: bool
) -> Modern | None:
    """The group that a record of types 3 to 23 applies to, added to `groups` if it is new; None: no group, ignored.
    Raises ReplayFailure if the release's load fails."""
    group_class = GROUP_OF_TYPE[record_type]
    group = groups.get(group_id)
    if isinstance(group, group_class):
        return group
    creates = is_value and record_type in release.creates_group
    if group is None and not creates:
        if record_type in release.needs_group:
            raise ReplayFailure(f"{group_class.group_type} group {group_id} not found.")
        return None
    if group is None or (group.is_simple and group_class.group_type in release.simple_group_becomes):
        created = group_class(release, group_id)
        groups[group_id] = created
        return created
    raise ReplayFailure(f"Group {group_id} is not a {group_class.group_type} group")


# The sources of members' rows, by member id: values that are replaced and never changed in place.
MemberFacts = Mapping[str, object]


class Place(NamedTuple):
    """The position of a record that changed a row. `log_timestamp` is in ms, None if the record has none."""

    offsets_partition: int
    log_offset: int
    log_timestamp: int | None


class MemberVersions(NamedTuple):
    """Version rows of several members of a classic group, decoded on demand. `numbers`: indexes in the value of members
    that joined or changed; `gone`: ids of those that left."""

    offsets_partition: int
    log_offset: int
    log_timestamp: int | None
    group_id: str
    group: ClassicGroup | None
    numbers: list[int]
    gone: list[str]

    def removed(self) -> list[MemberRow]:
        return _removed_members(Place(*self[:3]), self.group_id, self.gone)


Version = GroupRow | MemberRow | MemberVersions
Row = TypeVar("Row", GroupRow, MemberRow)


class Before(NamedTuple):
    """A group before a record, with the members that the record may change in place."""

    group: Group | None
    row: tuple[object, ...] | None
    members: MemberFacts


def before(group: Group | None, member_id: str | None) -> Before:
    """The rows that a record about `member_id` (None: about the group, and no member) may change."""
    if group is None:
        return Before(None, None, {})
    # A record replaces a classic group as a whole, so the old members are still available afterwards.
    members = {} if member_id is None or isinstance(group, ClassicGroup) else member_facts(group, member_id)
    return Before(group, group.row(0)[:VERSIONED], members)


def changes(start: Before, group: Group | None, member_id: str | None, place: Place, topics: Topics) -> list[Version]:
    """Version rows for the differences from `start`, the group's own first."""
    was, members_before, members_now = start.group, start.members, start.members
    if was is not group:
        members_before, members_now = _facts_to_compare(was, group)
    elif group is not None and member_id is not None and not isinstance(group, ClassicGroup):
        members_now = member_facts(group, member_id)
    versions: list[Version] = []
    if group is not None:
        row = group.row(0)
        if row[:VERSIONED] != start.row:
            versions.append(_at(place, row))
    elif was is not None:
        names = (was.group_id, was.group_type, "Dead", was.is_simple)
        versions.append(_at(place, GroupRow(0, *names, state_since=place.log_timestamp, is_removed=True)))
    changed, gone = [*members_now], [*members_before]
    if not members_before.keys().isdisjoint(members_now):  # else each member joined or left
        changed = [member for member, facts in members_now.items() if members_before.get(member) != facts]
        gone = [member for member in members_before if member not in members_now]
    group_id = group.group_id if group is not None else was.group_id if was is not None else ""
    if isinstance(group, ClassicGroup) and group.members_on_demand is not None:
        numbers = [*map(group.member_numbers.__getitem__, changed)]
        return versions + ([MemberVersions(*place, group_id, group, numbers, gone)] if numbers or gone else [])
    if group is not None:
        versions += [_at(place, group.member_row(place.offsets_partition, member, topics)) for member in changed]
    if gone and isinstance(was, ClassicGroup) and was.members_on_demand is not None:
        return [*versions, MemberVersions(*place, group_id, None, [], gone)]
    return versions + [*_removed_members(place, group_id, gone)]


def _at(place: Place, row: Row) -> Row:
    """The row at that place. _replace takes several times as long."""
    return type(row)(place.offsets_partition, *row[1:-3], place.log_offset, place.log_timestamp, row.is_removed)


def _removed_members(place: Place, group_id: str, gone: list[str]) -> list[MemberRow]:
    return [MemberRow(group_id=group_id, member_id=member, is_removed=True, **place._asdict()) for member in gone]


def _facts_to_compare(one: Group | None, other: Group | None) -> tuple[MemberFacts, MemberFacts]:
    """All members of both groups: their fingerprints if both groups have them, otherwise their fields in the log."""
    if not (_has_fingerprints(one) and _has_fingerprints(other)):
        one_facts, other_facts = ({} if group is None else member_facts(group, None) for group in (one, other))
        return one_facts, other_facts
    old, new = (group.member_numbers if isinstance(group, ClassicGroup) else {} for group in (one, other))
    if old.keys().isdisjoint(new):  # nothing to compare, and fingerprints cost something
        return old, new
    was, now = (group.member_fingerprints if isinstance(group, ClassicGroup) else {} for group in (one, other))
    return was, now


def _has_fingerprints(group: Group | None) -> bool:
    """Whether all members have a fingerprint; true without members."""
    if group is None or not isinstance(group, ClassicGroup):
        return group is None
    return group.members_on_demand is not None or not group.member_numbers


def member_facts(group: Group, member_id: str | None) -> MemberFacts:
    """The sources of the rows of one member, or (None) of all; empty if there is no such member."""
    if isinstance(group, ClassicGroup):
        return group.member_facts
    members = group.members if member_id is None else [member_id] if member_id in group.members else []
    return {known: (group.group_type, group.members[known][:-1], group.target.get(known)) for known in members}


# Changes of a group's members: which left, joined or replaced another one, and which have another assignment.


class MemberChange(NamedTuple):
    """Members with the same event, and the event's values of each; none: it has no values. `members`: their numbers in
    `value`, or (None) their names."""

    event: str
    value: SnapshotMembers | None
    members: list[Any]
    values_before: Sequence[str | None] = ()
    values_after: Sequence[str | None] = ()


# Ids of members that left and that joined, before static members are paired; and (id, assignment before, assignment
# now) of members that stayed with another assignment.
_Ids = tuple[list[str], list[str], list[tuple[str, str | None, str | None]]]


def member_count(group: Group) -> int:
    if isinstance(group, ClassicGroup):
        return 0 if group.value is None else len(group.value["members"])
    return len(group.members)


def member_changes(before: Group | None, touched: dict[str, Any], now: Group | None) -> Iterator[MemberChange]:
    """The changes from the group before an act, with the members that it `touched`, to the group `now`. A static member
    under another id is replaced. Assignments are not compared if the group changed its type."""
    if isinstance(now, ClassicGroup) and (before is None or isinstance(before, ClassicGroup)):
        left, joined, assigned = _of_classic(before, now)
    else:
        left, joined, assigned = _of_any(before, touched, now)
    gone, new = _members(before, left, touched), _members(now, joined, {})
    by_instance = {i: each for each, i in zip(left, _instances(*gone), strict=True) if i is not None}
    static = zip(joined, _instances(*new), strict=True) if by_instance else ()
    replaces = {member_id: by_instance.pop(instance) for member_id, instance in static if instance in by_instance}
    if replaces:
        replaced = set(replaces.values())
        gone = _members(before, [member_id for member_id in left if member_id not in replaced], touched)
        new = _members(now, [member_id for member_id in joined if member_id not in replaces], {})
    for event, (value, some) in (("member_left", gone), ("member_joined", new)):
        if some:
            yield MemberChange(event, value, some)
    if replaces:
        yield MemberChange("member_replaced", *_members(now, [*replaces], {}), [*replaces.values()], [*replaces])
    if assigned:
        ids, were, are = zip(*assigned, strict=True)
        yield MemberChange("assignment_changed", None, [(each, None, None, None) for each in ids], were, are)


def _instances(value: SnapshotMembers | None, members: list[Any]) -> list[str | None]:
    """The instance ids of members as in MemberChange."""
    if value is None:
        return [name[1] for name in members]
    return [*map(value.texts("group_instance_id").__getitem__, members)]


def _members(
    group: Group | None, member_ids: list[str], touched: dict[str, Any]
) -> tuple[SnapshotMembers | None, list[Any]]:
    """`value` and `members` of MemberChange; modern groups' as they were before, if `touched` has them."""
    if group is None or not member_ids:
        return None, []
    if isinstance(group, ClassicGroup):
        return group.members_on_demand, group.chosen(member_ids)
    found = list[MemberName]()
    for member_id in member_ids:
        member = touched[member_id][0] if touched.get(member_id) else group.members.get(member_id)
        metadata = (None if member is None else member.metadata) or {}
        found.append((member_id, *map(metadata.get, ("instanceId", "clientId", "clientHost"))))
    return None, found


def _of_any(before: Group | None, touched: dict[str, Any], now: Group | None) -> _Ids:
    there_before = _member_ids(before, touched)
    assigned: list[tuple[str, str | None, str | None]] = []
    if before is None or now is None or isinstance(before, ClassicGroup) or before.group_type != now.group_type:
        there_now = _member_ids(now, {})
    else:
        there_before = {member_id: None for member_id, member in touched.items() if member is not None}
        there_now = {member_id: None for member_id in touched if member_id in now.members}
        for member_id in there_now:
            if touched[member_id] is not None:
                old, new = _assigned(touched[member_id][0], now), _assigned(now.members[member_id], now)
                if old != new:
                    assigned.append((member_id, _text(old), _text(new)))
    left = [member_id for member_id in there_before if member_id not in there_now]
    joined = [member_id for member_id in there_now if member_id not in there_before]
    return left, joined, assigned


def _member_ids(group: Group | None, touched: dict[str, Any]) -> dict[str, None]:
    """Ids of the group's members; if `touched` is not empty, only the touched ones of a modern group before the act."""
    if group is None:
        return {}
    if isinstance(group, ClassicGroup):
        return dict.fromkeys(group.member_numbers)
    if touched:
        return {member_id: None for member_id, member in touched.items() if member and member[1] == group.group_type}
    return dict.fromkeys(group.members)


def _of_classic(before: ClassicGroup | None, now: ClassicGroup) -> _Ids:
    old, new = ({} if before is None else before.member_numbers), now.member_numbers
    if before is None or old.keys().isdisjoint(new):
        return [*old], [*new], []
    left = [member_id for member_id in old if member_id not in new]
    joined = [member_id for member_id in new if member_id not in old]
    was, now_is = before.assignments, now.assignments
    pairs = ((member_id, was[old[member_id]], now_is[number]) for member_id, number in new.items() if member_id in old)
    return left, joined, [(member_id, one, other) for member_id, one, other in pairs if one != other]


def _assigned(member: Any, group: Group) -> Any:
    """The assignment of a member of a modern group, without epochs, in order."""
    if isinstance(group, StreamsGroup):
        return [tuple(task) for task in member.assigned or ()]
    return sorted((topic_id, partition) for topic_id, partitions in member.assigned.items() for partition in partitions)


def _text(assigned: Iterable[tuple[Any, ...]]) -> str:
    names = {2: ("topic_id", "partition"), 3: ("role", "subtopology_id", "partition")}
    return orjson.dumps([dict(zip(names[len(each)], each, strict=True)) for each in assigned]).decode()
