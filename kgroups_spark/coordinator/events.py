"""Events of groups, found while their records are replayed: rows of `group_events`.

Offsets. Each tombstone is an event with the removed offset and the cause. Moves of offsets are found elsewhere (by
columns: offsets/effects.py).

Groups. The records of one act of a coordinator are one change: an upgrade to the consumer protocol deletes a group and
creates it again, and a first member takes five records. The events are at the last record of the act that changed the
group. An act is the records of types 2 to 23 and the offset tombstones of one batch: both coordinators append the
records of one operation on a group at once (Java: CoordinatorRuntime, Scala: GroupMetadataManager), the cleaner keeps
batches apart, and no audit ends within a batch. Where history does not have the batch (message formats 0 and 1), an
act is consecutive records with the same log timestamp.

A tombstone may remove a value that the log does not have: Kafka's cleaner took it, or the log was not read that far
back. Then the event lacks the value before, and its cause is unknown. Each removal is reported once: the shard
remembers removed offsets and groups, and a second tombstone is no event. The tombstone of an offset that was only ever
pending is no event either, because no committed offset was removed.

The events of a log are the same however it is cut. Without batches an act also ends with an audit, so a rebuild gets
the log offsets at which audits ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from kgroups_spark.coordinator.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kgroups_spark.coordinator.consumer_group import UNKNOWN_METADATA, ConsumerGroup
from kgroups_spark.coordinator.group_snapshots import GROUP_METADATA
from kgroups_spark.coordinator.releases import ExpiryRules, OpenTransactionRule, Release
from kgroups_spark.coordinator.share_group import ShareGroup, StreamsGroup
from kgroups_spark.coordinator.versions import Group, MemberChange, member_changes, member_count
from kgroups_spark.words import DAY_MS

# Why committed offsets and groups were removed: the facts in the log, and the explanations that fit them.
#
# The tombstones that a coordinator writes in one batch are one *act* (group_events.py). Each explanation needs:
#
#     expired         the offset was due by the release's rules and the retention, in an Empty group for no more than
#                     OVERDUE_MS (checks run every ten minutes, or when a broker is back); if the group was removed, all
#                     of its offsets were due
#     group_deleted   the group was removed in the same act, and none of its offsets is left. Scala writes no tombstone
#                     of a simple group: all of its offsets were removed, and more than one if single offsets can be
#                     deleted, too (pending ones may be left). This also holds under Java's rules in a log that may
#                     have begun under Scala
#     offset_deleted  the group stayed, and did not subscribe to the topic (Kafka refuses to delete such offsets)
#     topic_deleted   no group of the offsets partition has an offset of the topic left, or the group subscribes
#                     to it, and Java's group stayed
#
# If the log no longer has the removed value, all explanations fit: unknown.
#
# An offset that was due counts as expired, because a manual deletion before the next check writes the same records.
# Otherwise the only explanation that fits is the cause; topic_deleted if one act removed the topic from several groups;
# unknown if several fit.
#
# The facts are computed from the state before the act.

CAUSES = ("expired", "group_deleted", "offset_deleted", "topic_deleted", "unknown")
EXPIRED, GROUP_DELETED, OFFSET_DELETED, TOPIC_DELETED, UNKNOWN = CAUSES

# An offset overdue for longer may have other causes: the brokers' retention may differ from ours.
OVERDUE_MS = DAY_MS


class RemovedValue(NamedTuple):
    """The fields of a removed value that can explain its removal. Times are ms; None: the value has none."""

    committed_offset: int
    topic_id: str | None
    commit_timestamp: int
    expire_timestamp: int | None
    value_version: int


class Fits(NamedTuple):
    """Which explanations fit a removal. `is_late`: due for longer than OVERDUE_MS."""

    expired: bool
    group_deleted: bool
    offset_deleted: bool
    topic_deleted: bool
    is_late: bool
    several_groups: bool


def cause_of(fits: Fits) -> str:
    """The cause; UNKNOWN if several explanations fit, or none."""
    acts = {GROUP_DELETED: fits.group_deleted, OFFSET_DELETED: fits.offset_deleted, TOPIC_DELETED: fits.topic_deleted}
    fitting = [cause for cause, fits_it in acts.items() if fits_it]
    if fits.expired:
        return UNKNOWN if fits.is_late and fitting else EXPIRED
    if fitting == [OFFSET_DELETED, TOPIC_DELETED] and fits.several_groups:
        return TOPIC_DELETED
    return fitting[0] if len(fitting) == 1 else UNKNOWN


def due_at(
    group: Group | None,
    topic: str,
    value: RemovedValue,
    rules: ExpiryRules,
    retention_ms: int,
    *,
    is_pending: bool,
) -> int | None:
    """When a committed offset is due, in epoch ms; None: it does not expire in the group's present state. The rules are
    those of the package expiry, applied to one offset."""
    if group is None or (is_pending and rules.pending_transaction_spares):
        return None
    base = None
    if rules.depends_on_group:
        if is_exempt(group, topic, rules):
            return None
        if isinstance(group, ClassicGroup) and group.state == "Empty" and group.protocol_type and group.value:
            since = group.value["currentStateTimestamp"]
            base = None if since == -1 else since
    strict = int(rules.is_strict)
    if rules.honours_expire_timestamp and value.expire_timestamp is not None:
        return value.expire_timestamp + strict
    if rules.v1_without_expire_timestamp_expired and value.value_version == 1:
        return strict - 1
    return (value.commit_timestamp if base is None else base) + retention_ms + strict


def is_exempt(group: Group, topic: str, rules: ExpiryRules) -> bool:
    """Whether no offset of the topic expires in the group's present state."""
    if isinstance(group, ShareGroup):
        return True
    if isinstance(group, ClassicGroup):
        if group.state == "Empty":
            return False
        if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.state not in rules.subscription_states:
            return True
    topics = topics_of(group, rules)
    return topics is None or topic in topics


def topics_of(group: Group, rules: ExpiryRules) -> set[str] | None:
    """Topics that the group subscribes to; None: unknown."""
    if isinstance(group, ClassicGroup):
        return group.topics
    if isinstance(group, ConsumerGroup):
        members = (member.metadata or UNKNOWN_METADATA for member in group.members.values())
        topics = {topic for metadata in members for topic in metadata["subscribedTopicNames"]}
        return topics.union(*group.regexes.values())
    if isinstance(group, StreamsGroup):
        if group.topology is None or group.state in rules.topology_unread_states:
            return set()
        found = set()
        for subtopology in group.topology["subtopologies"]:
            found |= {*subtopology["sourceTopics"], *(each["name"] for each in subtopology["repartitionSourceTopics"])}
        return found
    return set()


# One act of a coordinator: the groups before it, the groups and offsets that it removed, and why
# (removal_causes.py).

Slot = tuple[str, str, int]  # group, topic, partition


class RecordPlace(NamedTuple):
    """The place of a record. `log_timestamp` in ms; `batch_offset`: base offset of its batch. None: not known."""

    log_offset: int
    log_timestamp: int | None
    batch_offset: int | None = None


class HeldOffsets(Protocol):
    """Which groups have offsets after the last replayed record."""

    def held(self, group_id: str) -> tuple[bool, bool]:
        """Whether the group has committed, and pending ones."""


class KnownGroups(Protocol):
    """The part of `groups.Groups` that events need."""

    release: Release
    held: HeldOffsets
    groups: dict[str, Group]
    removed_groups: dict[str, int]


class RemovedCommit(NamedTuple):
    """The offset that a tombstone removed, and which are left after it. `value` None: the log does not have it (any
    more). `is_pending`: an open transaction held one of the slot. `is_topic_left`, `is_group_left`: a group of the
    offsets partition still has an offset of the topic, the group any."""

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


class Cause(NamedTuple):
    """The cause of a removal. `overdue_since` (ms; None: otherwise): unknown, as expiry was due OVERDUE_MS before."""

    cause: str
    overdue_since: int | None = None


class Touched:
    """A group before an act, and its changes in the act so far."""

    __slots__ = ("facts", "group", "had_offsets", "had_pending", "members", "missing", "place", "state_since")

    def __init__(self, groups: KnownGroups, group_id: str, group: Group | None) -> None:
        self.group = group
        self.facts = None if group is None else facts_of(group)
        self.state_since = None if group is None else group.state_since
        self.had_offsets, self.had_pending = groups.held.held(group_id)
        # Members of modern groups before the act's first record about them; None: there was no such member.
        self.members: dict[str, Any] = {}
        # The newest record that changed the group.
        self.place: RecordPlace | None = None
        # The tombstone of a group that did not exist, and the group type of such a tombstone.
        self.missing: tuple[RecordPlace, str] | None = None


@dataclass
class Causes:
    """Why one act removed its offsets and groups. `with_unknown`: groups whose value is not in the log."""

    groups: KnownGroups
    rules: ExpiryRules
    touched: dict[str, Touched]
    removals: list[Removal]
    with_unknown: set[str]

    def __post_init__(self) -> None:
        self._by_group: dict[str, list[Removal]] = {}
        self._groups_of_topic: dict[str, set[str]] = {}
        for removal in self.removals:
            self._by_group.setdefault(removal.slot[0], []).append(removal)
            self._groups_of_topic.setdefault(removal.slot[1], set()).add(removal.slot[0])
        self._last_of_topic = {each.slot[1]: each for each in self.removals}

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
        if group_id in self.with_unknown or touched.group is None or touched.had_offsets:
            return Cause(UNKNOWN)
        if member_count(touched.group):
            return Cause(UNKNOWN)
        spared = touched.had_pending and self.rules.open_transaction is OpenTransactionRule.ALWAYS
        if spared or (isinstance(touched.group, ShareGroup) and not self.rules.deletes_share_groups):
            return Cause(GROUP_DELETED)
        since = touched.state_since
        is_late = since is not None and log_timestamp is not None and log_timestamp - since > OVERDUE_MS
        return Cause(UNKNOWN, since) if is_late else Cause(EXPIRED)

    def _is_gone(self, removal: Removal) -> bool:
        """Whether the act removed the group. No record shows that of Scala's simple groups with pending offsets."""
        group_id = removal.slot[0]
        nothing_left = not self._by_group[group_id][-1].is_group_left
        is_scala = self.groups.release.coordinator == "scala"
        return group_id not in self.groups.groups or (is_scala and self._was_simple(group_id) and nothing_left)

    def _was_simple(self, group_id: str) -> bool:
        group, touched = self.groups.groups.get(group_id), self.touched.get(group_id)
        before = group if touched is None else touched.group
        return before is not None and before.is_simple

    def _fits(self, removal: Removal) -> Fits:
        group_id, topic, _ = removal.slot
        of_group = self._by_group[group_id]
        is_scala = self.groups.release.coordinator == "scala"
        nothing_left = not of_group[-1].is_group_left
        was_simple, is_gone = self._was_simple(group_id), self._is_gone(removal)
        expired = all(map(_is_due, of_group)) if is_gone else _is_due(removal)
        is_late = expired and any(map(_is_late, of_group if is_gone else [removal]))
        deletes_offsets = bool(self.rules.subscription_states)  # since 2.4 (KIP-496)
        # The log may be from before an upgrade to 4.0. Only Java writes values with a topic id.
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
    """Whether it was due OVERDUE_MS ago. False for a group that is not Empty: it may have unsubscribed only now."""
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


K = TypeVar("K")
V = TypeVar("V")

# Group types by the record whose tombstone removes a group.
TYPE_OF_GROUP_RECORD = {GROUP_METADATA: "classic", 3: "consumer", 11: "share", 17: "streams"}
# Removed offsets, and removed groups, that each offsets partition remembers. It drops the oldest removals first.
REMEMBERED = 65536


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
    change: MemberChange


class Rules(NamedTuple):
    """The settings that decide causes. `retention`: (first log offset, retention in ms), ascending; `audit_ends`: log
    offsets at which audits ended, ascending."""

    expiry: ExpiryRules
    retention: tuple[tuple[int, int], ...]
    audit_ends: tuple[int, ...] = ()


class GroupEvents:
    """Records the events of the groups of one partition. `before` and `after` enclose each record that may change a
    group; `tombstone` comes at each offset tombstone. A simple group that is created or removed (`created`, `vanished`)
    ends the act: another request wrote it."""

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
        # The tombstones of offsets that the log does not have: place, slot, group type.
        self._unknown: list[tuple[RecordPlace, Slot, str | None]] = []
        # Group events at values and markers. They are numbered together with the moves of offsets at that log offset.
        self.moves: list[GroupEvent] = []

    def take(self) -> list[GroupEvent | MemberEvents]:
        """The events since the last call."""
        reported, self._reported = self._reported, []
        return reported

    def before(self, place: RecordPlace, group_id: str, member_id: str | None, record_type: int | None) -> None:
        """The record is about to be replayed: it may change the group and this member of it. `record_type` None: an
        offset tombstone, with which a simple group may go (Scala)."""
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
            self._unknown.append((place, slot, group_type))
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
        causes = Causes(self._groups, self._rules.expiry, touched, removals, {slot[0] for _, slot, _ in unknown})
        report = _Report(self._reported)
        for each in unknown:
            report.removed_offset(*each, None, Cause(UNKNOWN))
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
            # Notes whether the act removed the group.
            removed, last = self._groups.removed_groups, group.place or (group.missing and group.missing[0])
            if group_id in self._groups.groups:
                removed.pop(group_id, None)
            elif last is not None and group_id not in removed:
                remember(removed, group_id, last.log_offset)

    def _open(self, place: RecordPlace) -> None:
        """A record of types 2 to 23, or an offset tombstone: it belongs to the act, or begins the next one."""
        if self._audit_ends and place.log_offset >= self._audit_ends[-1]:
            self.close()
            while self._audit_ends and place.log_offset >= self._audit_ends[-1]:
                self._audit_ends.pop()
        while self._retention and place.log_offset >= self._retention[-1][0]:
            self._retention_ms = self._retention.pop()[1]
        if (newest := self._newest) is not None:
            # A record of the same batch belongs to the act; if batches are not known, one of the same time does.
            if newest.batch_offset is not None and place.batch_offset is not None:
                is_one_act = newest.batch_offset == place.batch_offset
            else:
                is_one_act = newest.log_timestamp == place.log_timestamp
                is_one_act &= place.log_timestamp is not None or newest.log_offset + 1 >= place.log_offset
            if not is_one_act:
                self.close()
        self._newest = place


class _Report:
    """Adds the events of one act to a list, numbered at each log offset."""

    def __init__(self, events: list[GroupEvent | MemberEvents]) -> None:
        self._events = events
        self._numbers: defaultdict[int, int] = defaultdict(int)

    def event(self, place: RecordPlace, group_id: str, group_type: str | None, event: str, **fields: Any) -> None:
        at = (place.log_offset, self._numbers[place.log_offset], place.log_timestamp, place.log_timestamp)
        self._events.append(GroupEvent(*at, group_id, group_type, event, **fields))
        self._numbers[place.log_offset] += 1

    def members(self, place: RecordPlace, group_id: str, group_type: str | None, change: MemberChange) -> None:
        at = (place.log_offset, self._numbers[place.log_offset], place.log_timestamp, place.log_timestamp)
        self._events.append(MemberEvents(*at, group_id, group_type, change))
        self._numbers[place.log_offset] += len(change.members)

    def removed_offset(
        self, place: RecordPlace, slot: Slot, group_type: str | None, offset_before: int | None, cause: Cause
    ) -> None:
        group_id, topic, partition = slot
        of_slot = {"topic": topic, "partition": partition, "offset_before": offset_before}
        self.event(place, group_id, group_type, "offset_removed", **of_slot, **cause._asdict())

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
        for change in member_changes(touched.group, touched.members, now):
            self.members(*of, change)
        if old is not None and new is None:
            cause = causes.of_group(group_id, touched, place.log_timestamp)
            self.event(*of, "group_removed", value_before=old[1], **cause._asdict())


def _event(place: RecordPlace, group: Group, name: str, **fields: Any) -> GroupEvent:
    at = (place.log_offset, 0, place.log_timestamp, place.log_timestamp)
    return GroupEvent(*at, group.group_id, group.group_type, name, **fields)


def remember(remembered: dict[K, V], key: K, value: V) -> None:
    """Puts the key after all others, and drops the oldest one if there are more than REMEMBERED."""
    remembered.pop(key, None)
    remembered[key] = value
    if len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]
