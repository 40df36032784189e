"""Events of groups, found while their records are replayed: rows of `group_events`.

Offsets. Each tombstone is an event with the removed offset and the cause. Moves of offsets are found elsewhere (by
columns: offsets/moves.py).

Groups. The records of one act of a coordinator are one change: an upgrade to the consumer protocol deletes a group and
creates it again, and a first member takes five records. The events are at the last record of the act that changed the
group. An act is the records of types 2 to 23 and the offset tombstones of one batch: both coordinators append the
records of one operation on a group at once (Java: CoordinatorRuntime, Scala: GroupMetadataManager), the cleaner keeps
batches apart, and no audit ends within a batch. Where history does not have the batch (message formats 0 and 1, lakes
before layout 9), an act is consecutive records with the same log timestamp.

A tombstone may remove a value that the log does not have: Kafka's cleaner took it, or the log was not read that far
back. Then the event lacks the value before, and its cause is unknown. Each removal is reported once: the shard
remembers removed offsets and groups, and a second tombstone is no event. The tombstone of an offset that was only ever
pending is no event either, because no committed offset was removed.

The events of a log are the same however it is cut. Without batches an act also ends with an audit, so a rebuild gets
the log offsets at which audits ended.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, TypeVar

from kgroups_spark.coordinator.acts import (
    Cause,
    Causes,
    KnownGroups,
    RecordPlace,
    Removal,
    RemovedCommit,
    Slot,
    Touched,
    UnknownRemoval,
    facts_of,
)
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.coordinator.group_snapshots import GROUP_METADATA
from kgroups_spark.coordinator.member_changes import MemberName, member_changes
from kgroups_spark.coordinator.removal_causes import UNKNOWN, due_at, topics_of

K = TypeVar("K")
V = TypeVar("V")

# Group types by the record whose tombstone removes a group.
TYPE_OF_GROUP_RECORD = {GROUP_METADATA: "classic", 3: "consumer", 11: "share", 17: "streams"}
# Removed offsets, and removed groups, that each offsets partition remembers. It drops the oldest removals first.
REMEMBERED = 65536

EVENTS = (
    "group_created",
    "state_changed",
    "generation_changed",
    "member_joined",
    "member_left",
    "member_replaced",
    "assignment_changed",
    "group_type_changed",
    "group_removed",
    "offset_rewound",
    "offset_skipped",
    "offset_removed",
    "offset_restarted",
    "offset_unset",
    "topic_recreated",
)


class GroupEvent(NamedTuple):
    """A row of `group_events` without audit_id and offsets_partition. Times are in ms, None if the record has none."""

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
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    overdue_since: int | None = None


class MemberEvents(NamedTuple):
    """The same event of several members, with consecutive numbers from `event_index` on."""

    log_offset: int
    event_index: int
    log_timestamp: int | None
    event_timestamp: int | None
    group_id: str
    group_type: str | None
    event: str
    members: list[MemberName]


class Rules(NamedTuple):
    """The settings that decide causes. `retention`: (first log offset, retention in ms), ascending.

    `audit_ends`: log offsets at which an audit ended, ascending.
    """

    expiry: ExpiryRules
    retention: tuple[tuple[int, int], ...]
    audit_ends: tuple[int, ...] = ()


class GroupEvents:
    """Records the events of the groups of one partition, and the committed offsets that are removed.

    `before` and `after` enclose each record that may change a group; `tombstone` comes at each offset tombstone. A
    value or a marker that creates or removes a simple group (`created`, `vanished`) ends the act: another request wrote
    it.
    """

    def __init__(self, groups: KnownGroups, rules: Rules) -> None:
        self._groups = groups
        self._rules = rules
        self._reported: list[GroupEvent | MemberEvents] = []
        self._audit_ends = list(reversed(rules.audit_ends))
        self._retention = list(reversed(rules.retention))
        self._retention_ms = 0
        # The act: its newest record, the groups before it, its removals.
        self._newest: RecordPlace | None = None
        self._touched: dict[str, Touched] = {}
        self._removals: list[Removal] = []
        self._unknown: list[UnknownRemoval] = []
        # Group events at values and markers. They are numbered together with the moves of offsets at that log offset.
        self.moves: list[GroupEvent] = []

    def take(self) -> list[GroupEvent | MemberEvents]:
        """The events since the last call."""
        reported, self._reported = self._reported, []
        return reported

    def before(self, place: RecordPlace, group_id: str, member_id: str | None, record_type: int | None) -> None:
        """The record is about to be replayed: it may change the group and this member of it.

        `record_type` None: an offset tombstone, with which a simple group may go (Scala).
        """
        self._open(place)
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

    def after(self, place: RecordPlace, group_id: str, missing_type: str | None, *, is_changed: bool) -> None:
        """The record has been replayed. `is_changed`: it changed the group or a member of it. `missing_type`: the type
        of the group that its tombstone removes, where there was no such group; else None."""
        touched = self._touched[group_id]
        if is_changed:
            touched.place = place
        if missing_type is not None:
            touched.missing = (place, missing_type)

    def tombstone(self, place: RecordPlace, removed: RemovedCommit | None) -> None:
        """Notes an offset tombstone. `removed` None: it removed no offset, or one that is known to be gone."""
        self._open(place)
        if removed is None:
            return
        slot, value = removed.slot, removed.value
        group, rules = self._groups.groups.get(slot[0]), self._rules.expiry
        group_type = None if group is None else group.group_type
        if value is None:
            self._unknown.append(UnknownRemoval(place, slot, group_type))
            return
        due = due_at(group, slot[1], value, rules, self._retention_ms, is_pending=removed.is_pending)
        is_subscribed = group is not None and due is None and slot[1] in (topics_of(group, rules) or ())
        emptied = None if group is None or group.state != "Empty" else group.state_since
        left = (removed.is_topic_left, removed.is_group_left)
        self._removals.append(Removal(place, slot, value, group_type, due, emptied, is_subscribed, *left))

    def created(self, place: RecordPlace, group: Group) -> None:
        """A value has created a simple group."""
        self.close()
        self._groups.removed_groups.pop(group.group_id, None)
        self.moves.append(_event(place, group, "group_created", value_after=group.state))

    def vanished(self, place: RecordPlace, group: Group) -> None:
        """Scala: a marker has removed the last offset of a simple group."""
        self.close()
        remember(self._groups.removed_groups, group.group_id, place.log_offset)
        self.moves.append(_event(place, group, "group_removed", value_before=group.state, cause=UNKNOWN))

    def close(self) -> None:
        """Ends the act, and reports its events."""
        self._newest = None
        if not self._touched and not self._removals and not self._unknown:
            return
        touched, self._touched = self._touched, {}
        removals, self._removals = self._removals, []
        unknown, self._unknown = self._unknown, []
        causes = Causes(self._groups, self._rules.expiry, touched, removals, {each.slot[0] for each in unknown})
        report = _Report(self._reported)
        for each in unknown:
            report.removed_offset(each.place, each.slot, each.group_type, None, Cause(UNKNOWN))
        for removal in removals:
            committed_offset, cause = removal.value.committed_offset, causes.of_offset(removal)
            report.removed_offset(removal.place, removal.slot, removal.group_type, committed_offset, cause)
        for group_id, group in touched.items():
            now = self._groups.groups.get(group_id)
            if group.place is not None:
                report.group(group.place, group_id, group, now, causes)
            elif group.missing is not None and now is None and group_id not in self._groups.removed_groups:
                place, group_type = group.missing
                report.event(place, group_id, group_type, "group_removed", cause=UNKNOWN)
            self._remember_group(group_id, group)

    def _open(self, place: RecordPlace) -> None:
        """A record of types 2 to 23, or an offset tombstone: it belongs to the act, or begins the next one."""
        if self._audit_ends and place.log_offset >= self._audit_ends[-1]:
            self.close()
            while self._audit_ends and place.log_offset >= self._audit_ends[-1]:
                self._audit_ends.pop()
        while self._retention and place.log_offset >= self._retention[-1][0]:
            self._retention_ms = self._retention.pop()[1]
        if self._newest is not None and not _is_one_act(self._newest, place):
            self.close()
        self._newest = place

    def _remember_group(self, group_id: str, touched: Touched) -> None:
        """After an act on the group: notes whether it is removed."""
        place = touched.place or (None if touched.missing is None else touched.missing[0])
        if group_id in self._groups.groups:
            self._groups.removed_groups.pop(group_id, None)
        elif place is not None and group_id not in self._groups.removed_groups:
            remember(self._groups.removed_groups, group_id, place.log_offset)


class _Report:
    """Adds the events of one act to a list, numbered at each log offset."""

    def __init__(self, events: list[GroupEvent | MemberEvents]) -> None:
        self._events = events
        self._numbers: Counter[int] = Counter()

    def event(self, place: RecordPlace, group_id: str, group_type: str | None, event: str, **fields: Any) -> None:
        at = (place.log_offset, self._numbers[place.log_offset], place.log_timestamp, place.log_timestamp)
        self._events.append(GroupEvent(*at, group_id, group_type, event, **fields))
        self._numbers[place.log_offset] += 1

    def members(
        self, place: RecordPlace, group_id: str, group_type: str | None, event: str, members: list[MemberName]
    ) -> None:
        if members:
            at = (place.log_offset, self._numbers[place.log_offset], place.log_timestamp, place.log_timestamp)
            self._events.append(MemberEvents(*at, group_id, group_type, event, members))
            self._numbers[place.log_offset] += len(members)

    def removed_offset(
        self, place: RecordPlace, slot: Slot, group_type: str | None, offset_before: int | None, cause: Cause
    ) -> None:
        group_id, topic, partition = slot
        of_slot = {"topic": topic, "partition": partition, "offset_before": offset_before}
        self.event(place, group_id, group_type, "offset_removed", **of_slot, **_of_cause(cause))

    def group(self, place: RecordPlace, group_id: str, touched: Touched, now: Group | None, causes: Causes) -> None:
        """The differences between the group before the act and `now` (None: it is gone)."""
        old, new = touched.facts, None if now is None else facts_of(now)
        of = (place, group_id, None if (known := new or old) is None else known[0])
        if old is None and new is not None:
            self.event(*of, "group_created", value_after=new[1])
        if old is not None and new is not None:
            for name, was, is_now in zip(
                ("group_type_changed", "state_changed", "generation_changed"), old, new, strict=True
            ):
                if was != is_now:
                    self.event(*of, name, value_before=str(was), value_after=str(is_now))
        changes = member_changes(touched.group, touched.members, now)
        self.members(*of, "member_left", changes.left)
        self.members(*of, "member_joined", changes.joined)
        for one, other in changes.replaced:
            fields = {**other._asdict(), "value_before": one.member_id, "value_after": other.member_id}
            self.event(*of, "member_replaced", **fields)
        for member_id, was, is_now in changes.assigned:
            self.event(*of, "assignment_changed", member_id=member_id, value_before=was, value_after=is_now)
        if old is not None and new is None:
            cause = causes.of_group(group_id, touched, place.log_timestamp)
            self.event(*of, "group_removed", value_before=old[1], **_of_cause(cause))


def _of_cause(cause: Cause) -> dict[str, Any]:
    return {"cause": cause.name, "overdue_since": cause.overdue_since}


def _is_one_act(newest: RecordPlace, place: RecordPlace) -> bool:
    """Whether the record belongs to the act whose newest record is `newest`."""
    if newest.batch_offset is not None and place.batch_offset is not None:
        return newest.batch_offset == place.batch_offset
    if place.log_timestamp is None:
        return newest.log_timestamp is None and newest.log_offset + 1 >= place.log_offset
    return newest.log_timestamp == place.log_timestamp


def _event(place: RecordPlace, group: Group, name: str, **fields: Any) -> GroupEvent:
    at = (place.log_offset, 0, place.log_timestamp, place.log_timestamp)
    return GroupEvent(*at, group.group_id, group.group_type, name, **fields)


def remember(remembered: dict[K, V], key: K, value: V) -> None:
    """Puts the key after all others, and drops the oldest one if there are more than REMEMBERED."""
    remembered.pop(key, None)
    remembered[key] = value
    if len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]
