"""A share group of KIP-932: record types 9 to 15.

The state is Empty without members, otherwise Stable, whatever the epochs. Type 15 (which share partitions are
initialised) creates the group (semantics section 12.9) and changes no other column of a table here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kgroups_spark.coordinator.consumer_group import (
    LEFT,
    STABLE,
    STATES,
    ModernGroup,
    Value,
    assigned_partitions,
    state_name,
    unique,
)
from kgroups_spark.coordinator.releases import Partitions, Release, ReplayFailure, Topics
from kgroups_spark.coordinator.rows import MemberRow, Task, none_if_unset


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


# A streams group of KIP-1071: record types 17 and 19 to 23.
#
# The state is the first of these that applies (Kafka StreamsGroup.maybeUpdateGroupState). Empty: no members. NotReady:
# there is no topology, or its epoch is not the validated one (4.1 cannot know after a load: always NotReady, T40). Then
# the states of a consumer group. Member states count from 1 (STABLE), unlike those of the other types (T39).


STREAMS_STABLE = 1
STREAMS_STATES = {STREAMS_STABLE: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}
ROLES = ("active", "standby", "warmup")


class StreamsMember(NamedTuple):
    """A member. Fields that no record has set yet are None."""

    member_id: str
    metadata: Value | None = None
    member_epoch: int | None = None
    previous_member_epoch: int | None = None
    member_state: int | None = None
    assigned: list[Task] | None = None
    pending_revocation: list[Task] | None = None
    log_offset: int | None = None


class StreamsGroup(ModernGroup[StreamsMember, list[Task]]):
    group_type = "streams"

    def __init__(self, release: Release, group_id: str) -> None:
        super().__init__(release, group_id)
        self.topology: Value | None = None
        self.validated_topology_epoch = release.unset_topology_epoch

    def replay(self, log_offset: int, record_type: int, name: str | None, value: Value | None) -> bool:
        """Applies a record; True: it removed the group. `name` is the member id."""
        member_id = name or ""
        match record_type:
            case 17:
                if value is None:
                    self.check_removal(target_must_be_empty=False)
                    return True
                self._replay_epoch(value)
            case 19:
                self._replay_metadata(log_offset, member_id, value)
            case 20:
                self.set_assignment_epoch(value)
            case 21:
                self.set_target(member_id, None if value is None else _tasks(value, "{role}Tasks", may_repeat=False))
            case 22:
                self._replay_current_assignment(log_offset, member_id, value)
            case 23:
                self._replay_topology(value)
        return False

    def _replay_epoch(self, value: Value) -> None:
        self.validated_topology_epoch = value["validatedTopologyEpoch"]
        # Values in group_records that were decoded before 4.4 was supported do not have this key.
        self.stored_description_epoch = none_if_unset(value.get("storedDescriptionTopologyEpoch"))
        self.set_group_epoch(value)
        if self.release.has_task_epochs and value["lastAssignmentConfigs"]:
            unique(value["lastAssignmentConfigs"], "key", bool)

    def _replay_metadata(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(19, member_id, is_value=value is not None):
            return
        if value is None:
            if self.members[member_id].member_epoch is None:
                raise ReplayFailure(f"member {member_id} of group {self.group_id} is to be deleted, but has no epoch")
            self.check_member_removal(member_id)
            del self.members[member_id]
        else:
            unique(value["clientTags"], "key", bool)
            member = self.members.get(member_id) or StreamsMember(member_id)
            self.members[member_id] = member._replace(metadata=value, log_offset=log_offset)
        self.changed()

    def _replay_current_assignment(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(22, member_id, is_value=value is not None):
            return
        member = self.members.get(member_id) or StreamsMember(member_id)
        if value is None:
            member = member._replace(
                member_epoch=LEFT, previous_member_epoch=LEFT, assigned=[], pending_revocation=[], log_offset=log_offset
            )
        else:
            may_repeat = self.release.has_task_epochs
            member = member._replace(
                member_epoch=value["memberEpoch"],
                previous_member_epoch=value["previousMemberEpoch"],
                member_state=value["state"],
                assigned=_tasks(value, "{role}Tasks", may_repeat),
                pending_revocation=_tasks(value, "{role}TasksPendingRevocation", may_repeat),
                log_offset=log_offset,
            )
        self.members[member_id] = member
        self.changed()

    def _replay_topology(self, value: Value | None) -> None:
        if value is not None:
            unique(value["subtopologies"], "subtopologyId", bool)
            if value["epoch"] < 0:
                raise ReplayFailure("Topology epoch must be non-negative.")
        self.topology = value
        self.changed()

    def _compute_state(self) -> str:
        if not self.members:
            return "Empty"
        if not self._is_ready():
            return "NotReady"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        for member in self.members.values():
            if member.member_state != STREAMS_STABLE or member.member_epoch != self.assignment_epoch:
                return "Reconciling"
        return "Stable"

    def _is_ready(self) -> bool:
        return (
            self.release.streams_ready_by_validated_epoch
            and self.topology is not None
            and self.topology["epoch"] == self.validated_topology_epoch
        )

    def topology_json(self) -> str | None:
        if self.topology is None:
            return None
        return json.dumps(self.topology, ensure_ascii=False, separators=(",", ":"))

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
        member = self.members[member_id]
        metadata = member.metadata or STREAMS_UNKNOWN_METADATA
        return MemberRow(
            offsets_partition,
            self.group_id,
            member_id,
            group_instance_id=metadata["instanceId"],
            client_id=metadata["clientId"],
            client_host=metadata["clientHost"],
            rack_id=metadata["rackId"],
            rebalance_timeout_ms=none_if_unset(metadata["rebalanceTimeoutMs"]),
            member_epoch=none_if_unset(member.member_epoch),
            previous_member_epoch=none_if_unset(member.previous_member_epoch),
            member_state=None if member.member_state is None else state_name(STREAMS_STATES, member.member_state),
            assigned_tasks=member.assigned,
            target_tasks=self.target.get(member_id, []),
            pending_revocation_tasks=member.pending_revocation,
            topology_epoch=none_if_unset(metadata["topologyEpoch"]),
            process_id=metadata["processId"],
            log_offset=member.log_offset,
        )


STREAMS_UNKNOWN_METADATA: dict[str, Any] = dict.fromkeys(
    ("instanceId", "clientId", "clientHost", "rackId", "rebalanceTimeoutMs", "topologyEpoch", "processId")
)


def _tasks(value: Value, field: str, may_repeat: bool) -> list[Task]:
    """Tasks of a value, sorted. A repeated subtopology raises ReplayFailure, or its last entry counts (`may_repeat`:
    4.2, current assignments)."""
    return [
        Task(role, subtopology_id, partition)
        for role in ROLES
        for subtopology_id, partitions in _by_subtopology(value[field.format(role=role)], may_repeat)
        for partition in partitions
    ]


def _by_subtopology(entries: Iterable[Value], may_repeat: bool) -> list[tuple[str, list[int]]]:
    if may_repeat:
        by_id = {entry["subtopologyId"]: sorted(set(entry["partitions"])) for entry in entries}
    else:
        by_id = unique(entries, "subtopologyId", lambda entry: sorted(set(entry["partitions"])))
    return sorted(by_id.items())
