"""Changes of a group's members: which left, joined or replaced another one, and which have another assignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.streams_group import StreamsGroup


class MemberName(NamedTuple):
    """A member as its records name it; null: they do not."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None


class MemberChanges(NamedTuple):
    """Members that left and that joined; (old member, new member) of one static member under another id; and (id,
    assignment before, assignment now) of members that stayed with another assignment."""

    left: list[MemberName]
    joined: list[MemberName]
    replaced: list[tuple[MemberName, MemberName]]
    assigned: list[tuple[str, str | None, str | None]]


# The ids in MemberChanges, before static members are paired.
_Ids = tuple[list[str], list[str], list[tuple[str, str | None, str | None]]]


def member_count(group: Group) -> int:
    if isinstance(group, ClassicGroup):
        return 0 if group.value is None else len(group.value["members"])
    return len(group.members)


def member_changes(before: Group | None, touched: dict[str, Any], now: Group | None) -> MemberChanges:
    """The changes from the group before an act, with the members that it `touched`, to the group `now`. Assignments
    are not compared if the group changed its type."""
    if isinstance(now, ClassicGroup) and (before is None or isinstance(before, ClassicGroup)):
        left, joined, assigned = _of_classic(before, now)
    else:
        left, joined, assigned = _of_any(before, touched, now)
    gone, new = _names(before, left, touched), _names(now, joined, {})
    by_instance: dict[str | None, MemberName]
    by_instance = {name.group_instance_id: name for name in gone if name.group_instance_id is not None}
    pairs = [(by_instance.pop(name.group_instance_id, None), name) for name in new]
    replaced = [(old, name) for old, name in pairs if old is not None]
    gone_for_good = [name for name in gone if name not in {old for old, _ in replaced}]
    return MemberChanges(gone_for_good, [name for old, name in pairs if old is None], replaced, assigned)


def _names(group: Group | None, member_ids: list[str], touched: dict[str, Any]) -> list[MemberName]:
    """The names of these members of the group; those of modern groups as they were before, if `touched` has them."""
    if group is None or not member_ids:
        return []
    if isinstance(group, ClassicGroup):
        return [MemberName(*each) for each in zip(member_ids, *group.names_of(member_ids), strict=True)]
    found = []
    for member_id in member_ids:
        member = touched[member_id][0] if touched.get(member_id) else group.members.get(member_id)
        metadata = (None if member is None else member.metadata) or {}
        found.append(MemberName(member_id, *(metadata.get(name) for name in ("instanceId", "clientId", "clientHost"))))
    return found


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
    left = [member_id for member_id in old if member_id not in new]
    joined = [member_id for member_id in new if member_id not in old]
    if before is None or len(joined) == len(new):
        return left, joined, []
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
