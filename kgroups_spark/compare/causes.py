"""Differences between two releases -> which of them only follow from another difference of the same group."""

from __future__ import annotations

from collections.abc import Iterable

from kgroups_spark.compare.differences import (
    COMMITTED,
    GROUP,
    GROUP_EXPIRY,
    LOAD,
    MEMBER,
    OFFSET_EXPIRY,
    PENDING,
    WITHOUT_LOAD,
    Difference,
    Place,
)

# In this order causes come first.
KINDS = (LOAD, GROUP, MEMBER, COMMITTED, PENDING, OFFSET_EXPIRY, GROUP_EXPIRY)
OTHER_GROUP = "the group is another one there (see its own row)"
OTHER_OFFSETS = "its offsets or transactions are others there (see their own rows)"


def with_causes(differences: Iterable[Difference]) -> list[Difference]:
    """The differences, causes first; `follows_from` is the kind of difference of the same group that causes one.

    A group of a partition that does not load follows from the load. Members that one rule changes together with their
    group follow from the group, and so do offsets that no group can have there. Expiry follows from the first
    difference of the group that the same rule causes; if no rule alone causes it, but the state, from the first one.
    """
    first: dict[Place, str] = {}
    whys: dict[tuple[Place, str], set[str | None]] = {}
    found = []
    for each in sorted(differences, key=_order):
        earlier = {kind: whys.get((each.place, kind), set()) for kind in KINDS}
        cause = _cause(each, first.get(each.place), earlier)
        found.append(each._replace(follows_from=cause))
        first.setdefault(each.place, each.difference)
        if cause is None:
            whys.setdefault((each.place, each.difference), set()).add(each.why)
    return found


def _cause(each: Difference, first: str | None, whys: dict[str, set[str | None]]) -> str | None:
    """The kind of difference that causes this one; None: none does. `first`: the group's first kind of difference;
    `whys`: the reasons of earlier ones that follow from no other, by kind."""
    if is_unserved(each):
        return LOAD
    if each.difference == MEMBER and each.why and each.why in whys[GROUP]:
        return GROUP
    if each.difference == COMMITTED and each.what == "is_orphan" and whys[GROUP]:
        return GROUP
    if each.difference in (OFFSET_EXPIRY, GROUP_EXPIRY) and each.why in (OTHER_GROUP, OTHER_OFFSETS):
        return first
    if each.difference in (OFFSET_EXPIRY, GROUP_EXPIRY) and each.why:
        return next((kind for kind in KINDS if each.why in whys[kind]), None)
    return None


def is_unserved(each: Difference) -> bool:
    """Whether it is a group of a partition that one of the releases does not load."""
    return each.difference == GROUP and bool({each.value_a, each.value_b} & set(WITHOUT_LOAD.values()))


def _order(each: Difference) -> tuple[object, ...]:
    return (
        KINDS.index(each.difference),
        each.offsets_partition,
        each.group_id or "",
        each.topic or "",
        each.partition or 0,
        each.member_id or "",
    )
