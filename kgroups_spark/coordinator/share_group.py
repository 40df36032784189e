"""A share group of KIP-932 (types 9 to 15): Empty without members, otherwise Stable, whatever the epochs. Type 15 (its
share partitions) creates the group (semantics section 12.9) and changes no other column here."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kgroups_spark.coordinator.consumer_group import (
    STABLE,
    STATES,
    ModernGroup,
    Value,
    assigned_partitions,
    unique,
)
from kgroups_spark.coordinator.releases import Partitions, Release, ReplayFailure, Topics
from kgroups_spark.coordinator.rows import Task, none_if_unset
from kgroups_spark.messages.schema import MalformedError, read_uvarint


class ShareMember(NamedTuple):
    """A member. `metadata` is its type-10 value, None if only a current assignment (type 14) names it."""

    member_id: str
    metadata: Value | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    member_state: int = STABLE
    assigned: Partitions = {}  # noqa: RUF012  never changed in place
    log_offset: int | None = None


class ShareGroup(ModernGroup):
    group_type = "share"
    member_class = ShareMember
    states = STATES
    # Kafka's ShareGroupMember.Builder starts from these values.
    unknown_metadata = {"rackId": None, "clientId": "", "clientHost": "", "subscribedTopicNames": []}  # noqa: RUF012
    unassigned = {"assigned": {}}  # noqa: RUF012

    def replay_own(self, record_type: int, name: str, value: Value | None) -> None:
        if record_type == 15 and value is not None:
            unique(value["initializingTopics"], "topicId", bool)
            unique(value["initializedTopics"], "topicId", bool)

    def member(self, member_id: str, log_offset: int | None = None) -> ShareMember:
        """The member to change. Up to 4.1 a change resets the member's state (ShareGroupMember.Builder)."""
        if log_offset is not None:
            # Kafka stores a new member before it reads the assignment, which may fail.
            self.members.setdefault(member_id, ShareMember(member_id, log_offset=log_offset))
            self.changed()
        member: ShareMember = super().member(member_id)
        return member if self.release.share_member_keeps_state else member._replace(member_state=STABLE)

    def assignment_of(self, value: Value) -> dict[str, Any]:
        return {"member_state": value["state"], "assigned": assigned_partitions(value["assignedPartitions"])}

    def _compute_state(self) -> str:
        return "Stable" if self.members else "Empty"

    def own_columns(self, member: ShareMember, metadata: Value, topics: Topics) -> dict[str, Any]:
        return {
            "subscribed_topics": sorted(set(metadata["subscribedTopicNames"])),
            "assigned_partitions": topics.of_ids(member.assigned),
            "target_partitions": topics.of_ids(self.target.get(member.member_id, {})),
        }


def check_hash_as_tags(metadata_hash: int | None) -> None:
    """Raises ReplayFailure where 4.0 fails on a type-11 value of 4.1 or newer. Its layout has no hash: it reads the
    hash and the tag count as its own tag section, all uvarints: a count, then per tag number, size and bytes. None: the
    value is in 4.0's layout."""
    if metadata_hash is None:
        return
    data = metadata_hash.to_bytes(8, "big", signed=True) + b"\0"
    try:
        count, at = read_uvarint(data, 0)
        for _ in range(count):
            _, at = read_uvarint(data, at)
            size, at = read_uvarint(data, at)
            if size < 0:
                raise ReplayFailure(f"Could not read record with version 0: a tag of {size} bytes")
            at += size
            if at > len(data):
                raise IndexError
    except IndexError as end:
        raise ReplayFailure("Could not read record with version 0: its tags are longer than the value") from end
    except MalformedError as error:
        raise ReplayFailure("Could not read record with version 0: a number has more than five bytes") from error


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

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.member_state == STREAMS_STABLE and self.member_epoch == assignment_epoch


class StreamsGroup(ModernGroup):
    group_type = "streams"
    member_class = StreamsMember
    states = STREAMS_STATES
    unknown_metadata = dict.fromkeys(
        ("instanceId", "clientId", "clientHost", "rackId", "rebalanceTimeoutMs", "topologyEpoch", "processId")
    )
    unassigned = {"assigned": [], "pending_revocation": []}  # noqa: RUF012
    target_must_be_empty = False

    def __init__(self, release: Release, group_id: str) -> None:
        super().__init__(release, group_id)
        self.topology: Value | None = None
        self.stored_description_epoch: int | None = None
        self.validated_topology_epoch = release.unset_topology_epoch

    def set_group_epoch(self, value: Value) -> None:
        self.validated_topology_epoch = value["validatedTopologyEpoch"]
        # Values in group_records that were decoded before 4.4 was supported do not have this key.
        self.stored_description_epoch = none_if_unset(value.get("storedDescriptionTopologyEpoch"))
        super().set_group_epoch(value)
        if self.release.has_task_epochs and value["lastAssignmentConfigs"]:
            unique(value["lastAssignmentConfigs"], "key", bool)

    def with_metadata(self, member_id: str, metadata: Value) -> Any:
        unique(metadata["clientTags"], "key", bool)
        return super().with_metadata(member_id, metadata)

    def target_of(self, value: Value) -> list[Task]:
        return _tasks(value, "{role}Tasks", may_repeat=False)

    def assignment_of(self, value: Value) -> dict[str, Any]:
        may_repeat = self.release.has_task_epochs
        return {
            "member_state": value["state"],
            "assigned": _tasks(value, "{role}Tasks", may_repeat),
            "pending_revocation": _tasks(value, "{role}TasksPendingRevocation", may_repeat),
        }

    def replay_own(self, record_type: int, name: str, value: Value | None) -> None:
        if record_type != 23:
            return
        if value is not None:
            unique(value["subtopologies"], "subtopologyId", bool)
            if value["epoch"] < 0:
                raise ReplayFailure("Topology epoch must be non-negative.")
        self.topology = value
        self.changed()

    @property
    def is_ready(self) -> bool:
        is_validated = self.topology is not None and self.topology["epoch"] == self.validated_topology_epoch
        return self.release.streams_ready_by_validated_epoch and is_validated

    def own_facts(self) -> dict[str, Any]:
        topology = self.topology and json.dumps(self.topology, ensure_ascii=False, separators=(",", ":"))
        return {"topology": topology, "stored_description_epoch": self.stored_description_epoch}

    def own_columns(self, member: StreamsMember, metadata: Value, topics: Topics) -> dict[str, Any]:
        return {
            "assigned_tasks": member.assigned,
            "target_tasks": self.target.get(member.member_id, []),
            "pending_revocation_tasks": member.pending_revocation,
            "topology_epoch": none_if_unset(metadata["topologyEpoch"]),
            "process_id": metadata["processId"],
        }


def _tasks(value: Value, field: str, may_repeat: bool) -> list[Task]:
    """Tasks of a value, sorted. Raises ReplayFailure for a repeated one, or takes the last (4.2: `may_repeat`)."""
    tasks = list[Task]()
    for role in ROLES:
        entries = value[field.format(role=role)]
        if may_repeat:
            by_id = {entry["subtopologyId"]: sorted(set(entry["partitions"])) for entry in entries}
        else:
            by_id = unique(entries, "subtopologyId", lambda entry: sorted(set(entry["partitions"])))
        tasks += [Task(role, name, partition) for name, numbers in sorted(by_id.items()) for partition in numbers]
    return tasks
