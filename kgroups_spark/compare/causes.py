"""Differences between two releases -> why, and which of them only follow from another difference of the same group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
from kgroups_spark.compare.rules import RULES

# In this order causes come first.
KINDS = (LOAD, GROUP, MEMBER, COMMITTED, PENDING, OFFSET_EXPIRY, GROUP_EXPIRY)
OTHER_GROUP = "the group is another one there (see its own row)"
OTHER_OFFSETS = "its offsets or transactions are others there (see their own rows)"


def without_reason(found: Sequence[Difference]) -> set[str]:
    """The groups of an offsets partition with a difference whose rule must be found by experiment. Where a release has
    not the group's type, what follows from that by its nature needs no experiment."""
    of_group = _reasons_of_groups(found)
    return {
        each.group_id
        for each in found
        if each.group_id is not None and not each.why and not (each.group_id in of_group and _is_of_its_group(each))
    }


def with_reasons(found: Sequence[Difference], tried: Mapping[Difference, str]) -> Iterator[Difference]:
    """The differences of an offsets partition, each with the reason that it shows itself, or the rules that cause it.
    `tried`: these rules, by `Difference.key`."""
    of_group = _reasons_of_groups(found)
    others = {each.group_id for each in found if each.difference == GROUP}
    for each in found:
        why = each.why or tried.get(each.key)
        if each.group_id in of_group and why in (None, RULES["record_types"]):
            why = of_group[each.group_id]
        if why is None and each.is_decision:
            why = OTHER_GROUP if each.group_id in others else OTHER_OFFSETS
        yield each._replace(why=why)


def _reasons_of_groups(found: Iterable[Difference]) -> dict[str | None, str]:
    return {each.group_id: each.why for each in found if each.difference == GROUP and each.why}


def _is_of_its_group(each: Difference) -> bool:
    return each.what == "is_orphan" or each.is_decision


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
    if each.is_decision and each.why in (OTHER_GROUP, OTHER_OFFSETS):
        return first
    if each.is_decision and each.why:
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
