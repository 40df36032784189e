"""One act of a coordinator: the groups before it, the groups and offsets that it removed, and why
(removal_causes.py)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.expiry_rules import ExpiryRules, OpenTransactionRule
from kgroups_spark.coordinator.member_changes import member_count
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.removal_causes import (
    EXPIRED,
    GROUP_DELETED,
    OVERDUE_MS,
    UNKNOWN,
    Fits,
    RemovedValue,
    cause_of,
)
from kgroups_spark.coordinator.share_group import ShareGroup

Slot = tuple[str, str, int]  # group, topic, partition


class RecordPlace(NamedTuple):
    """The place of a record. `log_timestamp` in ms; `batch_offset`: the base offset of its batch. Both None: not
    known."""

    log_offset: int
    log_timestamp: int | None
    batch_offset: int | None = None


class HeldOffsets(Protocol):
    """Which groups have offsets after the last replayed record."""

    def has_committed(self, group_id: str) -> bool: ...
    def has_pending(self, group_id: str) -> bool: ...


class KnownGroups(Protocol):
    """The part of `groups.Groups` that events need."""

    release: Release
    held: HeldOffsets
    groups: dict[str, Group]
    removed_groups: dict[str, int]


class RemovedCommit(NamedTuple):
    """The offset that a tombstone removed, and which offsets are left after it.

    `value` None: the log does not have it, or no longer. `is_pending`: an open transaction held an offset of the slot.
    `is_topic_left`: a group of the offsets partition still has an offset of the topic. `is_group_left`: the group still
    has an offset.
    """

    slot: Slot
    value: RemovedValue | None
    is_pending: bool
    is_topic_left: bool
    is_group_left: bool


class Removal(NamedTuple):
    """A committed offset that a tombstone removed, as it was before the act."""

    place: RecordPlace
    slot: Slot
    value: RemovedValue
    group_type: str | None
    due_at: int | None
    emptied: int | None  # log time, in ms, since which the group has been Empty; None: it is not Empty, or unknown
    is_subscribed: bool
    is_topic_left: bool  # a group of the offsets partition still has an offset of the topic
    is_group_left: bool  # the group still has an offset


class UnknownRemoval(NamedTuple):
    """The tombstone of an offset that the log does not have."""

    place: RecordPlace
    slot: Slot
    group_type: str | None


class Cause(NamedTuple):
    """The cause of a removal. `overdue_since`: it is unknown because expiry was due more than OVERDUE_MS earlier, from
    that time on, in ms; None: otherwise."""

    name: str
    overdue_since: int | None = None


class Touched:
    """A group before an act, and its changes in the act so far."""

    __slots__ = ("facts", "group", "had_offsets", "had_pending", "members", "missing", "place", "state_since")

    def __init__(self, groups: KnownGroups, group_id: str, group: Group | None) -> None:
        self.group = group
        self.facts = None if group is None else facts_of(group)
        self.state_since = None if group is None else group.state_since
        self.had_offsets = groups.held.has_committed(group_id)
        self.had_pending = groups.held.has_pending(group_id)
        # Members of modern groups before the act's first record about them; None: there was no such member.
        self.members: dict[str, Any] = {}
        # The newest record that changed the group.
        self.place: RecordPlace | None = None
        # The tombstone of a group that did not exist, and the group type of such a tombstone.
        self.missing: tuple[RecordPlace, str] | None = None


class Causes:
    """Why one act removed its offsets and groups: causes of removal_causes.py."""

    def __init__(
        self,
        groups: KnownGroups,
        rules: ExpiryRules,
        touched: dict[str, Touched],
        removals: list[Removal],
        with_unknown: set[str],
    ) -> None:
        """`with_unknown`: groups with a tombstone in the act whose value the log does not have."""
        self._groups = groups
        self._rules = rules
        self._touched = touched
        self._with_unknown = with_unknown
        self._by_group: dict[str, list[Removal]] = {}
        self._groups_of_topic: dict[str, set[str]] = {}
        for removal in removals:
            self._by_group.setdefault(removal.slot[0], []).append(removal)
            self._groups_of_topic.setdefault(removal.slot[1], set()).add(removal.slot[0])
        self._last_of_topic = {each.slot[1]: each for each in removals}

    def of_offset(self, removal: Removal) -> Cause:
        fits = self._fits(removal)
        cause = cause_of(fits)
        if cause != UNKNOWN or not fits.is_late:
            return Cause(cause)
        judged = self._by_group[removal.slot[0]] if self._is_gone(removal) else [removal]
        return Cause(cause, min(_overdue_since(each) for each in judged if _is_late(each)))

    def of_group(self, group_id: str, touched: Touched, log_timestamp: int | None) -> Cause:
        """The cause of its offsets, if the act removed any. A group without offsets expires at the next check."""
        removals = self._by_group.get(group_id)
        if removals:
            causes = {self.of_offset(removal) for removal in removals}
            return causes.pop() if len(causes) == 1 else Cause(UNKNOWN)
        if group_id in self._with_unknown or touched.group is None or touched.had_offsets:
            return Cause(UNKNOWN)
        if member_count(touched.group):
            return Cause(UNKNOWN)
        spared = touched.had_pending and self._rules.open_transaction is OpenTransactionRule.ALWAYS
        if spared or (isinstance(touched.group, ShareGroup) and not self._rules.deletes_share_groups):
            return Cause(GROUP_DELETED)
        since = touched.state_since
        is_late = since is not None and log_timestamp is not None and log_timestamp - since > OVERDUE_MS
        return Cause(UNKNOWN, since) if is_late else Cause(EXPIRED)

    def _is_gone(self, removal: Removal) -> bool:
        """Whether the act removed the group, too. In Scala, a simple group with only pending offsets left may have been
        deleted: no record would show it."""
        group_id = removal.slot[0]
        nothing_left = not self._by_group[group_id][-1].is_group_left
        is_scala = self._groups.release.coordinator == "scala"
        return group_id not in self._groups.groups or (is_scala and self._was_simple(group_id) and nothing_left)

    def _was_simple(self, group_id: str) -> bool:
        group, touched = self._groups.groups.get(group_id), self._touched.get(group_id)
        before = group if touched is None else touched.group
        return before is not None and before.is_simple

    def _fits(self, removal: Removal) -> Fits:
        group_id, topic, _ = removal.slot
        of_group = self._by_group[group_id]
        is_scala = self._groups.release.coordinator == "scala"
        nothing_left = not of_group[-1].is_group_left
        was_simple, is_gone = self._was_simple(group_id), self._is_gone(removal)
        expired = all(map(_is_due, of_group)) if is_gone else _is_due(removal)
        is_late = expired and any(map(_is_late, of_group if is_gone else [removal]))
        deletes_offsets = bool(self._rules.subscription_states)  # since 2.4 (KIP-496)
        # Today's rules may have to explain a log from before an upgrade to 4.0. Only Java writes values with a topic
        # id.
        may_be_scalas = was_simple and nothing_left and any(each.value.topic_id is None for each in of_group)
        one_of_one = is_scala and was_simple and deletes_offsets and len(of_group) == 1
        topics = {each.slot[1] for each in of_group}
        topic_gone = not self._last_of_topic[topic].is_topic_left
        if is_gone:
            # Scala removes the group with its last offset, whatever removed that.
            topic_gone = topic_gone and is_scala and len(topics) == 1
        else:
            topic_gone = topic_gone or removal.is_subscribed
        return Fits(
            expired,
            (is_gone and nothing_left) or may_be_scalas,
            (not is_gone and not removal.is_subscribed and deletes_offsets) or (is_gone and one_of_one),
            topic_gone,
            is_late,
            len(self._groups_of_topic[topic]) > 1,
        )


def _is_due(removal: Removal) -> bool:
    due, removed = removal.due_at, removal.place.log_timestamp
    return due is not None and removed is not None and removed >= due


def _is_late(removal: Removal) -> bool:
    """Whether a check should have removed it more than OVERDUE_MS ago. False for a group that is not Empty: it may have
    unsubscribed from the topic only now."""
    removed = removal.place.log_timestamp
    assert removed is not None
    return removal.emptied is not None and removed - _overdue_since(removal) > OVERDUE_MS


def _overdue_since(removal: Removal) -> int:
    """Since when checks should have removed it."""
    assert removal.due_at is not None and removal.emptied is not None
    return max(removal.due_at, removal.emptied)


def facts_of(group: Group) -> tuple[str, str, int]:
    """Type, state, and generation or group epoch."""
    if isinstance(group, ClassicGroup):
        generation = 0 if group.value is None else group.value["generation"]
        return group.group_type, group.state, generation
    return group.group_type, group.state, group.group_epoch
