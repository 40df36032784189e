"""Events of groups, found while their records are replayed: rows of `group_events`.

Offsets. Each tombstone is an event with what it removes, and its cause. Moves of offsets are found elsewhere (by
columns: offsets/moves.py).

Groups. The records of one act of a coordinator are one change: an upgrade to the consumer protocol deletes a group and
creates it again, a first member comes in five records. The events are at the last record of the act that changed the
group. An act is the records of types 2 to 23 and the offset tombstones of one batch: both coordinators append what they
do to a group at once (Java: CoordinatorRuntime, Scala: GroupMetadataManager), the cleaner keeps batches apart, and no
audit ends within one. Where history does not have the batch (message formats 0 and 1, lakes before layout 9), an act is
the records that follow each other with the same log timestamp.

A tombstone of what the log does not have (Kafka's cleaner took it, or the log was not read that far back) says that
something went, not what: the event lacks what was there before, and its cause is unknown. Each removal is reported
once: the shard remembers which offsets and groups are gone, and a second tombstone reports nothing. Nor does the
tombstone of an offset that an open transaction holds and that was never committed: the log does not have such an
offset to remove.

The events of a log are the same however it is cut. Without batches an act ends with an audit, too: a rebuild is given
the places where audits ended.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, TypeVar

from kgroups_spark.coordinator.acts import (
    Causes,
    KnownGroups,
    Removal,
    RemovedCommit,
    Touched,
    UnknownRemoval,
    facts_of,
)
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.coordinator.member_changes import member_changes, member_count
from kgroups_spark.coordinator.removal_causes import (
    UNKNOWN,
    due_at,
    topics_of,
)

K = TypeVar("K")
V = TypeVar("V")

GROUP_METADATA = 2
# Group types by the record whose tombstone removes a group.
TYPE_OF_GROUP_RECORD = {GROUP_METADATA: "classic", 3: "consumer", 11: "share", 17: "streams"}
# So many removed offsets, and as many removed groups, are remembered in each offsets partition. The oldest removals are
# forgotten first.
REMEMBERED = 65536

EVENTS = (
    "group_created",
    "state_changed",
    "generation_changed",
    "member_joined",
    "member_left",
    "assignment_changed",
    "group_type_changed",
    "group_removed",
    "offset_rewound",
    "offset_skipped",
    "offset_removed",
    "offset_restarted",
    "topic_recreated",
)


class GroupEvent(NamedTuple):
    """A row of `group_events` without audit_id and offsets_partition. Times in ms."""

    log_offset: int
    event_index: int
    log_timestamp: int | None
    event_timestamp: int | None
    group_id: str
    group_type: str | None
    event: str
    member_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset_before: int | None = None
    offset_after: int | None = None
    value_before: str | None = None
    value_after: str | None = None
    cause: str | None = None


class MemberEvents(NamedTuple):
    """The same event of several members, with consecutive numbers from `event_index` on."""

    log_offset: int
    event_index: int
    log_timestamp: int | None
    event_timestamp: int | None
    group_id: str
    group_type: str | None
    event: str
    member_ids: list[str]


class Rules(NamedTuple):
    """The settings that decide causes. `retention`: (log offset from which on, retention in ms), ascending.

    `audit_ends`: log offsets at which an audit ended, ascending.
    """

    expiry: ExpiryRules
    retention: tuple[tuple[int, int], ...]
    audit_ends: tuple[int, ...] = ()


class GroupEvents:
    """Tells what happens to the groups of one partition, and which committed offsets are removed. `groups` says what it
    is about to replay and what has changed."""

    def __init__(self, groups: KnownGroups, rules: Rules) -> None:
        self._groups = groups
        self._rules = rules
        self._reported: list[GroupEvent | MemberEvents] = []
        self._audit_ends = list(reversed(rules.audit_ends))
        self._retention = list(reversed(rules.retention))
        self._retention_ms = 0
        # Base offset of the batch of the record that comes next; None: not known.
        self.batch_offset: int | None = None
        # The act: place, time and batch of its newest record, what it did.
        self._act: tuple[int, int | None, int | None] | None = None
        self._touched: dict[str, Touched] = {}
        self._removals: list[Removal] = []
        self._unknown: list[UnknownRemoval] = []
        # The value or marker that is being replayed.
        self._place: tuple[int, int | None] = (-1, None)
        # Group events from values and markers. Each is numbered together with the moves of offsets there.
        self.moves: list[GroupEvent] = []

    def take(self) -> list[GroupEvent | MemberEvents]:
        """The events since the last call."""
        reported, self._reported = self._reported, []
        return reported

    # The shard calls these before and after each replay.

    def record(self, log_offset: int, log_timestamp: int | None) -> None:
        """A record of types 2 to 23, or an offset tombstone, comes next."""
        if self._audit_ends and log_offset >= self._audit_ends[-1]:
            self.close()
            while self._audit_ends and log_offset >= self._audit_ends[-1]:
                self._audit_ends.pop()
        while self._retention and log_offset >= self._retention[-1][0]:
            self._retention_ms = self._retention.pop()[1]
        if self._act is not None and not self._is_of_act(log_offset, log_timestamp):
            self.close()
        self._act = (log_offset, log_timestamp, self.batch_offset)

    def _is_of_act(self, log_offset: int, log_timestamp: int | None) -> bool:
        assert self._act is not None
        last, time, batch_offset = self._act
        if batch_offset is not None and self.batch_offset is not None:
            return batch_offset == self.batch_offset
        return time == log_timestamp and (log_timestamp is not None or last + 1 == log_offset)

    def touches(self, group_id: str, member_id: str | None, record_type: int | None) -> None:
        """The record may change the group and this member of it."""
        group = self._groups.groups.get(group_id)
        touched = self._touched.get(group_id)
        if touched is None:
            touched = self._touched[group_id] = Touched(self._groups, group_id, group)
        if group is None or isinstance(group, ClassicGroup):
            if member_id is not None:
                touched.members.setdefault(member_id, None)
        elif record_type == GROUP_METADATA:
            for known in group.members:
                touched.members.setdefault(known, (group.members[known], group.group_type))
        elif member_id is not None:
            member = group.members.get(member_id)
            touched.members.setdefault(member_id, None if member is None else (member, group.group_type))

    def changed(self, group_id: str, log_offset: int, log_timestamp: int | None) -> None:
        """The record did change the group or a member of it."""
        touched = self._touched.get(group_id)
        if touched is not None:
            touched.place = (log_offset, log_timestamp)

    def unknown_group(self, group_id: str, log_offset: int, log_timestamp: int | None, record_type: int) -> None:
        """The record was a tombstone, and there was no such group."""
        group_type = TYPE_OF_GROUP_RECORD.get(record_type)
        touched = self._touched.get(group_id)
        if touched is not None and group_type is not None:
            touched.unknown = (log_offset, log_timestamp, group_type)

    def at(self, log_offset: int, log_timestamp: int | None) -> None:
        """A value or marker comes next."""
        self._place = (log_offset, log_timestamp)

    def created(self, group_id: str) -> None:
        """A value has made a simple group, after the act was closed."""
        self._groups.removed_groups.pop(group_id, None)
        self.moves.append(self._event(group_id, "group_created", value_after="Empty"))

    def vanished(self, group: Group) -> None:
        """Scala: a marker has taken the last that was left of a simple group, after the act was closed."""
        remember(self._groups.removed_groups, group.group_id, self._place[0])
        event = self._event(group.group_id, "group_removed", value_before=group.state, cause=UNKNOWN)
        self.moves.append(event._replace(group_type=group.group_type))

    def removed(self, removed: RemovedCommit) -> None:
        """A tombstone has removed a committed offset, for the first time."""
        place, slot, value = (self._act or (-1, None))[:2], removed.slot, removed.value
        group, rules = self._groups.groups.get(slot[0]), self._rules.expiry
        group_type = None if group is None else group.group_type
        if value is None:
            self._unknown.append(UnknownRemoval(*place, slot, group_type))
            return
        due = due_at(group, slot[1], value, rules, self._retention_ms, is_pending=removed.is_pending)
        is_subscribed = group is not None and due is None and slot[1] in (topics_of(group, rules) or ())
        emptied = None if group is None or group.state != "Empty" else group.state_since
        left = (removed.is_topic_left, removed.is_group_left)
        self._removals.append(Removal(*place, slot, value, group_type, due, emptied, is_subscribed, *left))

    def close(self) -> None:
        """The act has ended: tells what it did."""
        self._act = None
        if not self._touched and not self._removals and not self._unknown:
            return
        touched, self._touched = self._touched, {}
        removals, self._removals = self._removals, []
        unknown, self._unknown = self._unknown, []
        numbers: Counter[int] = Counter()
        causes = Causes(self._groups, self._rules.expiry, touched, removals, {each.slot[0] for each in unknown})
        for each in unknown:
            group_id, topic, partition = each.slot
            at = (each.log_offset, numbers[each.log_offset], each.log_timestamp, each.log_timestamp)
            event = GroupEvent(*at, group_id, each.group_type, "offset_removed", cause=UNKNOWN)
            self._reported.append(event._replace(topic=topic, partition=partition))
            numbers[each.log_offset] += 1
        for removal in removals:
            group_id, topic, partition = removal.slot
            self._reported.append(
                GroupEvent(
                    removal.log_offset,
                    numbers[removal.log_offset],
                    removal.log_timestamp,
                    removal.log_timestamp,
                    group_id,
                    removal.group_type,
                    "offset_removed",
                    topic=topic,
                    partition=partition,
                    offset_before=removal.value.committed_offset,
                    cause=causes.of_offset(removal),
                )
            )
            numbers[removal.log_offset] += 1
        for group_id, group in touched.items():
            if group.place is not None:
                self._tell_group(group_id, group, causes, numbers)
            elif group.unknown is not None and not (
                group_id in self._groups.groups or group_id in self._groups.removed_groups
            ):
                log_offset, log_timestamp, group_type = group.unknown
                at = (log_offset, numbers[log_offset], log_timestamp, log_timestamp)
                self._reported.append(GroupEvent(*at, group_id, group_type, "group_removed", cause=UNKNOWN))
                numbers[log_offset] += 1
            self._remember_group(group_id, group)

    def _remember_group(self, group_id: str, touched: Touched) -> None:
        """After an act that touched the group: whether it is known to be gone."""
        place = touched.place or touched.unknown
        if group_id in self._groups.groups:
            self._groups.removed_groups.pop(group_id, None)
        elif place is not None and group_id not in self._groups.removed_groups:
            remember(self._groups.removed_groups, group_id, place[0])

    def _event(self, group_id: str, name: str, **fields: Any) -> GroupEvent:
        log_offset, log_timestamp = self._place
        group = self._groups.groups.get(group_id)
        group_type = None if group is None else group.group_type
        return GroupEvent(log_offset, 0, log_timestamp, log_timestamp, group_id, group_type, name, **fields)

    def type_of_emptied(self, group_id: str) -> str | None:
        """The type of a group that has members at times and has none now; None: it is not one."""
        group = self._groups.groups.get(group_id)
        return None if group is None or group.is_simple or member_count(group) else group.group_type

    # Groups.

    def _tell_group(self, group_id: str, touched: Touched, causes: Causes, numbers: Counter[int]) -> None:
        assert touched.place is not None
        log_offset, log_timestamp = touched.place
        before, now = touched.group, self._groups.groups.get(group_id)
        old, new = touched.facts, None if now is None else facts_of(now)
        group_type = new[0] if new is not None else None if old is None else old[0]
        at = (log_timestamp, log_timestamp, group_id, group_type)

        def tell(event: str, **fields: Any) -> None:
            self._reported.append(GroupEvent(log_offset, numbers[log_offset], *at, event, **fields))
            numbers[log_offset] += 1

        def tell_members(event: str, member_ids: list[str]) -> None:
            if member_ids:
                self._reported.append(MemberEvents(log_offset, numbers[log_offset], *at, event, member_ids))
                numbers[log_offset] += len(member_ids)

        if old is None and new is not None:
            tell("group_created", value_after=new[1])
        if old is not None and new is not None:
            if old[0] != new[0]:
                tell("group_type_changed", value_before=old[0], value_after=new[0])
            if old[1] != new[1]:
                tell("state_changed", value_before=old[1], value_after=new[1])
            if old[2] != new[2]:
                tell("generation_changed", value_before=str(old[2]), value_after=str(new[2]))
        left, joined, assigned = member_changes(before, touched.members, now)
        tell_members("member_left", left)
        tell_members("member_joined", joined)
        for member_id, assigned_before, assigned_now in assigned:
            tell("assignment_changed", member_id=member_id, value_before=assigned_before, value_after=assigned_now)
        if old is not None and new is None:
            tell("group_removed", value_before=old[1], cause=causes.of_group(group_id, touched, log_timestamp))


def remember(remembered: dict[K, V], key: K, value: V) -> None:
    """Puts the key behind all others, and lets the oldest go where there are too many."""
    remembered.pop(key, None)
    remembered[key] = value
    if len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]
