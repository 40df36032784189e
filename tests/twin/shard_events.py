"""Events of the groups and the offsets of a shard of objects: group_events.py, and moves of offsets.

Each value that takes effect is compared with the committed offset that it replaces, and with the group's members at
that place of the log. The shard remembers removed offsets, so that each removal is reported once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import (
    UNKNOWN,
    GroupEvent,
    GroupEvents,
    RecordPlace,
    RemovedCommit,
    RemovedValue,
    Rules,
    Slot,
    remember,
)
from kgroups_spark.coordinator.versions import member_count
from tests.twin.offset_metadata import OffsetCommit

if TYPE_CHECKING:
    from tests.twin.shard import Shard


class RemovedOffset(NamedTuple):
    """The value of a slot before a tombstone, for the first commit after it. `committed_offset` None: unknown."""

    committed_offset: int | None
    topic_id: str | None
    log_offset: int


class ShardEvents(GroupEvents):
    """Reports the events of one shard, and observes its offsets."""

    def __init__(self, shard: Shard, rules: Rules) -> None:
        super().__init__(shard, rules)
        # The value, tombstone or marker that is being replayed.
        self.place = RecordPlace(-1, None)
        self._shard = shard
        self._is_marker = False
        # The number of committed offsets by topic.
        self._offsets_of: Counter[str] = Counter()
        self.count_offsets()

    def count_offsets(self) -> None:
        """Counts the shard's offsets again, after a load or a correction."""
        self._offsets_of = Counter(topic for offsets in self._shard.offsets.committed.values() for topic, _ in offsets)

    def at(self, log_offset: int, log_timestamp: int | None) -> None:
        """A value comes next."""
        self.place = RecordPlace(log_offset, log_timestamp)
        self._is_marker = False

    def marker(self, log_offset: int, log_timestamp: int | None) -> None:
        """A control record comes next."""
        self.at(log_offset, log_timestamp)
        self._is_marker = True

    def ended(self) -> None:
        """The value or marker has been replayed."""
        if self.moves:
            moves = self.moves
            if self._is_marker:
                moves.sort(key=_in_order)
            self._reported += [move._replace(event_index=index) for index, move in enumerate(moves)]
            self.moves = []

    def committed(self, slot: Slot, before: OffsetCommit | None, commit: OffsetCommit) -> None:
        """The offset has taken effect and replaced `before`."""
        value = commit.value
        after, topic_id = value.committed_offset, value.topic_id
        if before is None:
            self._offsets_of[slot[1]] += 1
            gone = self._shard.removed.pop(slot, None)
            if gone is None or gone.committed_offset is None:
                return
            offset, known_id = gone.committed_offset, gone.topic_id
        else:
            offset, known_id = before.value.committed_offset, before.value.topic_id
        is_recreated = topic_id != known_id and topic_id is not None and known_id is not None
        if not is_recreated and before is not None:
            # A hot path: most records end here.
            if after == offset or (after > offset and self._is_marker):
                return
            if after > offset and self.type_of_emptied(slot[0]) is None:
                return
        if is_recreated:
            event = self._event(slot[0], "topic_recreated", topic=slot[1], partition=slot[2])
            self.moves.append(event._replace(value_before=known_id, value_after=topic_id))
        if offset < 0:
            return
        if after < 0:
            name = "offset_unset"
        elif before is None:
            name = "offset_restarted"
        elif after < offset:
            name = "offset_rewound"
        elif after > offset and not is_recreated:
            name = "offset_skipped"
        else:
            return
        cause = "topic_recreated" if is_recreated else self._cause_of_move(slot[0])
        cause = None if after < 0 else cause
        event = self._event(slot[0], name, topic=slot[1], partition=slot[2])
        when = event.event_timestamp if self._is_marker else commit.value.commit_timestamp
        self.moves.append(event._replace(offset_before=offset, offset_after=after, cause=cause, event_timestamp=when))

    def removed_by(self, slot: Slot, commit: OffsetCommit | None, *, is_pending: bool) -> None:
        """A tombstone has removed the committed offset; `commit` None: the log does not have it."""
        remembered = self._shard.removed
        log_offset = self.place.log_offset
        if commit is None:
            # The removal is remembered: another tombstone is no event.
            if slot in remembered:
                return
            remember(remembered, slot, RemovedOffset(None, None, log_offset))
            if not is_pending:
                self.tombstone(
                    self.place, RemovedCommit(slot, None, is_pending=False, is_topic_left=False, is_group_left=False)
                )
            return
        value = commit.value
        remember(remembered, slot, RemovedOffset(value.committed_offset, value.topic_id, log_offset))
        self._offsets_of[slot[1]] -= 1
        left = (self._offsets_of[slot[1]] > 0, slot[0] in self._shard.offsets.committed)
        of_value = (value.committed_offset, value.topic_id, value.commit_timestamp, value.expire_timestamp)
        removed = RemovedCommit(slot, RemovedValue(*of_value, value.value_version), is_pending, *left)
        self.tombstone(self.place, removed)

    def type_of_emptied(self, group_id: str) -> str | None:
        """The type of a group that has members at times and has none now; None: it is not one."""
        group = self._groups.groups.get(group_id)
        return None if group is None or group.is_simple or member_count(group) else group.group_type

    def _event(self, group_id: str, name: str, **fields: Any) -> GroupEvent:
        log_offset, log_timestamp, _ = self.place
        group = self._groups.groups.get(group_id)
        group_type = None if group is None else group.group_type
        return GroupEvent(log_offset, 0, log_timestamp, log_timestamp, group_id, group_type, name, **fields)

    def _cause_of_move(self, group_id: str) -> str:
        if self._is_marker:
            return "transaction"
        group = self._groups.groups.get(group_id)
        if group is None:
            return UNKNOWN
        if member_count(group):
            return "with_members"
        value = group.value if isinstance(group, ClassicGroup) else {"protocolType": "consumer"}
        return "no_members" if value and value["protocolType"] else "self_assigned"


def _in_order(event: GroupEvent) -> tuple[str, str, int, str]:
    return event.group_id, event.topic or "", -1 if event.partition is None else event.partition, event.event
