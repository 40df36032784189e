"""A group's type and state at each log offset, as far as moves of its offsets depend on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.member_changes import member_count
from kgroups_spark.offsets.moves import Quiet
from kgroups_spark.offsets.numbers import I64, NEVER, latest_at


class GroupFacts(NamedTuple):
    """`is_emptied`: the group has members at times, and none now. `is_self_assigned`: no record shows a protocol type,
    so its consumers assign themselves, or are not known."""

    group_type: str | None
    has_members: bool
    is_emptied: bool
    is_self_assigned: bool


NO_GROUP = GroupFacts(None, False, False, False)


def facts_of(group: Group | None) -> GroupFacts:
    """The facts of a group in its present state; None: the group does not exist."""
    if group is None:
        return NO_GROUP
    has_members = member_count(group) > 0
    # Up to 1.0.0 an Empty group forgets its protocol type, but its record has it.
    has_type = not isinstance(group, ClassicGroup) or bool(group.value and group.value["protocolType"])
    is_self_assigned = not has_members and not has_type
    return GroupFacts(group.group_type, has_members, not has_members and not group.is_simple, is_self_assigned)


class GroupTimes:
    """The facts of a partition's groups by log offset: after which record they changed.

    GroupTimes({"g": stable}); changed("g", 12, empty); changed("g", 15, None)
        at(["g", "g", "h"], [11, 14, 20])  ->  stable, empty, NO_GROUP
        quiet(["g"])                       ->  group [0], since [12], until [15]
    """

    def __init__(self, saved: Mapping[str, Group]) -> None:
        self._numbers: dict[str, int] = {}
        self._group: list[int] = []
        self._since: list[int] = []
        self._facts: list[GroupFacts] = []
        self._newest: dict[str, GroupFacts] = {}
        for group_id, group in saved.items():
            self.changed(group_id, -1, group)

    def changed(self, group_id: str, log_offset: int, group: Group | None) -> None:
        """Notes the group after the record at `log_offset`; None: it does not exist. Log offsets must ascend."""
        facts = facts_of(group)
        if self._newest.get(group_id, NO_GROUP) != facts:
            self._newest[group_id] = facts
            self._group.append(self._numbers.setdefault(group_id, len(self._numbers)))
            self._since.append(log_offset)
            self._facts.append(facts)

    @property
    def has_quiet(self) -> bool:
        """Whether any group was ever emptied."""
        return any(facts.is_emptied for facts in self._facts)

    def at(self, group_ids: Sequence[str], log_offset: I64) -> list[GroupFacts]:
        """The facts of each group after the record at its log offset; NO_GROUP if there is no group."""
        group = np.array([self._numbers.get(name, len(self._numbers)) for name in group_ids], np.int64)
        own, since, order = self._rows()
        found = latest_at(own, since, group, log_offset).tolist()
        return [NO_GROUP if row < 0 else self._facts[order[row]] for row in found]

    def quiet(self, groups: Sequence[str]) -> Quiet:
        """The spans of log offsets in which each group was emptied; groups are numbered by their place in the list."""
        asked = {self._numbers[name]: number for number, name in enumerate(groups) if name in self._numbers}
        own, since, order = self._rows()
        until = np.full(len(own), NEVER)
        if len(own):
            until[:-1] = np.where(own[1:] == own[:-1], since[1:], NEVER)
        emptied = np.array([self._facts[row].is_emptied for row in order.tolist()], np.bool_)
        some = [at for at in np.flatnonzero(emptied).tolist() if int(own[at]) in asked]
        number = np.array([asked[int(own[at])] for at in some], np.int64)
        order = np.lexsort((since[some], number))
        return Quiet(number[order], since[some][order], until[some][order])

    def _rows(self) -> tuple[I64, I64, I64]:
        """Group number and log offset of each change, sorted by both, and its index in the lists."""
        own, since = np.array(self._group, np.int64), np.array(self._since, np.int64)
        order = np.lexsort((since, own))
        return own[order], since[order], order
