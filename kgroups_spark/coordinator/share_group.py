"""A share group of KIP-932: record types 9 to 15.

The state is Empty without members, otherwise Stable, whatever the epochs. Type 15 (which share partitions are
initialised) creates the group (semantics section 12.9) and changes no other column of a table here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kgroups_spark.coordinator.consumer_group import STABLE, STATES
from kgroups_spark.coordinator.modern_group import LEFT, ModernGroup, Value, assigned_partitions, state_name, unique
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.rows import MemberRow, none_if_unset
from kgroups_spark.coordinator.topics import Partitions, Topics


class ShareMember(NamedTuple):
    """A member. `metadata` is its type-10 value, None if only a current assignment (type 14) names it."""

    member_id: str
    metadata: Value | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    member_state: int = STABLE
    assigned: Partitions = {}  # noqa: RUF012  never changed in place
    log_offset: int | None = None


class ShareGroup(ModernGroup[ShareMember, Partitions]):
    group_type = "share"

    def replay(self, log_offset: int, record_type: int, name: str | None, value: Value | None) -> bool:
        """Applies a record; True: it removed the group. `name` is the member id."""
        member_id = name or ""
        match record_type:
            case 10:
                self._replay_metadata(log_offset, member_id, value)
            case 11:
                if value is None:
                    self.check_removal(target_must_be_empty=True)
                    return True
                self.set_group_epoch(value)
            case 12:
                self.set_assignment_epoch(value)
            case 13:
                self.set_target(member_id, None if value is None else assigned_partitions(value["topicPartitions"]))
            case 14:
                self._replay_current_assignment(log_offset, member_id, value)
            case 15 if value is not None:
                unique(value["initializingTopics"], "topicId", bool)
                unique(value["initializedTopics"], "topicId", bool)
        return False

    def _replay_metadata(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(10, member_id, is_value=value is not None):
            return
        if value is None:
            self.check_member_removal(member_id)
            del self.members[member_id]
        else:
            member = self._member(member_id)
            self.members[member_id] = member._replace(metadata=value, log_offset=log_offset)
        self.changed()

    def _replay_current_assignment(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(14, member_id, is_value=value is not None):
            return
        # Kafka stores a new member before it reads the assignment, which may fail.
        self.members.setdefault(member_id, ShareMember(member_id, log_offset=log_offset))
        self.changed()
        member = self._member(member_id)
        if value is None:
            member = member._replace(member_epoch=LEFT, previous_member_epoch=LEFT, assigned={})
        else:
            member = member._replace(
                member_epoch=value["memberEpoch"],
                previous_member_epoch=value["previousMemberEpoch"],
                member_state=value["state"],
                assigned=assigned_partitions(value["assignedPartitions"]),
            )
        self.members[member_id] = member._replace(log_offset=log_offset)

    def _member(self, member_id: str) -> ShareMember:
        """The member to change. Up to 4.1 a change resets the member's state (ShareGroupMember.Builder)."""
        member = self.members.get(member_id) or ShareMember(member_id)
        return member if self.release.share_member_keeps_state else member._replace(member_state=STABLE)

    def _compute_state(self) -> str:
        return "Stable" if self.members else "Empty"

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
        member = self.members[member_id]
        metadata = member.metadata or UNKNOWN_METADATA
        return MemberRow(
            offsets_partition,
            self.group_id,
            member_id,
            client_id=metadata["clientId"],
            client_host=metadata["clientHost"],
            rack_id=metadata["rackId"],
            member_epoch=none_if_unset(member.member_epoch),
            previous_member_epoch=none_if_unset(member.previous_member_epoch),
            member_state=state_name(STATES, member.member_state),
            subscribed_topics=sorted(set(metadata["subscribedTopicNames"])),
            assigned_partitions=topics.of_ids(member.assigned),
            target_partitions=topics.of_ids(self.target.get(member_id, {})),
            log_offset=member.log_offset,
        )


def check_hash_as_tags(metadata_hash: int | None) -> None:
    """Raises ReplayFailure where 4.0 fails on a type-11 value of 4.1 or newer.

    4.0's layout has no hash, so 4.0 reads the hash's bytes, and the tag count after them, as its own tag section: a
    count, then for each tag its number, size and bytes, all numbers uvarints. None: the value is in 4.0's layout.
    """
    if metadata_hash is None:
        return
    rest = iter(metadata_hash.to_bytes(8, "big", signed=True) + b"\0")
    try:
        for _ in range(_uvarint(rest)):
            _uvarint(rest)
            size = _uvarint(rest)
            if size < 0:
                raise ReplayFailure(f"Could not read record with version 0: a tag of {size} bytes")
            for _ in range(size):
                next(rest)
    except StopIteration as end:
        raise ReplayFailure("Could not read record with version 0: its tags are longer than the value") from end


def _uvarint(data: Iterator[int]) -> int:
    """Kafka's unsigned varint: at most five bytes, returned as a signed 32-bit integer."""
    value = 0
    for shift in range(0, 35, 7):
        byte = next(data)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return value - (1 << 32) if value >= 1 << 31 else value
    raise ReplayFailure("Could not read record with version 0: a number has more than five bytes")


# Kafka's ShareGroupMember.Builder starts from these values.
UNKNOWN_METADATA: dict[str, Any] = {"rackId": None, "clientId": "", "clientHost": "", "subscribedTopicNames": []}
