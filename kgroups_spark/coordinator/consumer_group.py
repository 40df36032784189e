"""A consumer group of KIP-848: record types 3 to 8 and 16.

The state is the first of these that applies (Kafka ConsumerGroup.maybeUpdateGroupState). Empty: no members. Assigning:
the group epoch is above the assignment epoch. Reconciling: a member is not STABLE at the assignment epoch, which
includes a static member that is away, at epoch -2 (T36). Otherwise Stable. A current assignment (type 8) after the
member's removal creates a ghost member (T35).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from kgroups_spark.coordinator.releases import Partitions, Release, ReplayFailure, Topics
from kgroups_spark.coordinator.rows import GroupRow, MemberRow, none_if_unset

# The common part of consumer, share and streams groups: each record sets one part (KIP-848), so the state is the sum
# of its records. As in Kafka, `state` is computed afterwards: a record that fails half way leaves it.


LEFT = -1  # member epoch, and assignment epoch, after their tombstone
Value = dict[str, Any]


Item = TypeVar("Item")
# The part of a group that a record sets, by record type.
PARTS = {
    **dict.fromkeys((3, 11, 17), "group"),
    **dict.fromkeys((5, 10, 19), "member"),
    **dict.fromkeys((6, 12, 20), "assignment_epoch"),
    **dict.fromkeys((7, 13, 21), "target"),
    **dict.fromkeys((8, 14, 22), "current_assignment"),
}


class ModernGroup:
    """A consumer, share or streams group. `target` is the target assignment by member id."""

    group_type: ClassVar[str]
    member_class: ClassVar[Any]
    states: ClassVar[Mapping[int, str]]  # Kafka's names of member states
    unknown_metadata: ClassVar[Value]  # from which Kafka's builder of a member starts
    unassigned: ClassVar[dict[str, Any]]  # besides the epochs, after the tombstone of a current assignment
    target_must_be_empty = True  # before the tombstone of the group
    is_simple = False

    def __init__(self, release: Release, group_id: str) -> None:
        self.release = release
        self.group_id = group_id
        self.group_epoch = release.fresh_epoch
        self.assignment_epoch = release.fresh_epoch
        self.metadata_hash = 0
        self.members: dict[str, Any] = {}
        self.target: dict[str, Any] = {}
        self.log_offset: int | None = None
        self.state_since: int | None = None
        self._state: str | None = "Empty"

    @property
    def state(self) -> str:
        """The state, computed again if one of its inputs has changed since."""
        if self._state is None:
            self._state = self._compute_state()
        return self._state

    def _compute_state(self) -> str:
        if not self.members:
            return "Empty"
        if not self.is_ready:
            return "NotReady"
        epoch = self.assignment_epoch
        if self.group_epoch > epoch:
            return "Assigning"
        return "Stable" if all(member.is_reconciled_to(epoch) for member in self.members.values()) else "Reconciling"

    @property
    def is_ready(self) -> bool:
        return True

    def changed(self) -> None:
        """Notes that an input of the state has changed."""
        self._state = None

    def restore(self, saved: Value) -> None:
        """Takes the common fields from a saved state."""
        self.group_epoch = saved["group_epoch"]
        self.assignment_epoch = saved["assignment_epoch"]
        self.metadata_hash = saved["metadata_hash"]
        self._state = saved["state"]

    def replay(self, log_offset: int, record_type: int, name: str | None, value: Value | None) -> bool:
        """Applies a record; True: it removed the group. `name` is the member id or (type 16) the regular expression."""
        member_id, part = name or "", PARTS.get(record_type)
        is_of_member = part in ("member", "current_assignment")
        if is_of_member and not self.needs_member(record_type, member_id, is_value=value is not None):
            return False
        match part:
            case "group":
                if value is None:
                    self.check_removal()
                    return True
                self.set_group_epoch(value)
            case "member" if value is None:
                self.check_member_removal(member_id)
                self.removed(self.members.pop(member_id))
                self.changed()
            case "member":
                self.store(self.with_metadata(member_id, value)._replace(log_offset=log_offset))
            case "assignment_epoch":
                self.set_assignment_epoch(value)
            case "target" if value is None:
                self.target.pop(member_id, None)
            case "target":
                self.target[member_id] = self.target_of(value)
            case "current_assignment":
                member = self.member(member_id, log_offset)
                at, was = (LEFT, LEFT) if value is None else (value["memberEpoch"], value["previousMemberEpoch"])
                assigned = self.unassigned if value is None else self.assignment_of(value)
                epochs = {"member_epoch": at, "previous_member_epoch": was}
                self.store(member._replace(**epochs, **assigned, log_offset=log_offset))
            case _:
                self.replay_own(record_type, member_id, value)
        return False

    def replay_own(self, record_type: int, name: str, value: Value | None) -> None:
        """Applies a record of a type that only groups of this type have."""

    def member(self, member_id: str, log_offset: int | None = None) -> Any:
        """The member, a new one if there is none. `log_offset`: of a record that assigns something to it."""
        return self.members.get(member_id) or self.member_class(member_id)

    def with_metadata(self, member_id: str, metadata: Any) -> Any:
        return self.member(member_id)._replace(metadata=metadata)

    def target_of(self, value: Any) -> Any:
        """The target assignment in a value of type 7, 13 or 21."""
        return assigned_partitions(value["topicPartitions"])

    def assignment_of(self, value: Value) -> dict[str, Any]:
        """The fields of a member in a value of type 8, 14 or 22, without its epochs."""
        raise NotImplementedError

    def store(self, member: Any) -> None:
        self.members[member.member_id] = member
        self.changed()

    def removed(self, member: Any) -> None:
        """A record has removed the member."""

    def set_group_epoch(self, value: Value) -> None:
        self.group_epoch = value["epoch"]
        self.metadata_hash = value.get("metadataHash", 0)
        self.changed()

    def set_assignment_epoch(self, value: Value | None) -> None:
        """Applies a record of type 6, 12 or 20. Raises ReplayFailure if Kafka refuses it."""
        if value is None and self.target:
            raise ReplayFailure(
                f"Received a tombstone record to delete target assignment of {self.group_id} but the assignment "
                f"still has {len(self.target)} members."
            )
        epoch: int = LEFT if value is None else value["assignmentEpoch"]
        if value is not None and self.release.checks_assignment_metadata:
            if epoch < LEFT:
                raise ReplayFailure("The assignment epoch must be non-negative or -1.")
            if value["assignmentTimestamp"] < 0:
                raise ReplayFailure("The assignment timestamp must be non-negative.")
        self.assignment_epoch = epoch
        self.changed()

    def check_removal(self) -> None:
        """Raises ReplayFailure if the tombstone of the group comes before those of its parts."""
        start = f"Received a tombstone record to delete group {self.group_id} but"
        if self.members:
            raise ReplayFailure(f"{start} the group still has {len(self.members)} members.")
        if self.target_must_be_empty and self.target:
            raise ReplayFailure(f"{start} the target assignment still has {len(self.target)} members.")
        if self.assignment_epoch != LEFT:
            raise ReplayFailure(f"{start} did not receive the tombstone of its target assignment's metadata.")

    def check_member_removal(self, member_id: str) -> None:
        """Raises ReplayFailure if the tombstone of the member comes before those of its assignments (T34)."""
        start = f"Received a tombstone record to delete member {member_id} but"
        if self.members[member_id].member_epoch is None:
            raise ReplayFailure(f"member {member_id} of group {self.group_id} is to be deleted, but has no epoch")
        if self.members[member_id].member_epoch != LEFT:
            raise ReplayFailure(f"{start} did not receive the tombstone of its current assignment.")
        if member_id in self.target:
            raise ReplayFailure(f"{start} did not receive the tombstone of its target assignment.")

    def needs_member(self, record_type: int, member_id: str, *, is_value: bool) -> bool:
        """Whether the record applies to a member: it exists, or the record creates it. Raises ReplayFailure in releases
        whose load fails otherwise (3.7 to 3.9; share groups of 4.0)."""
        if member_id in self.members or (is_value and record_type in self.release.creates_member):
            return True
        if record_type in self.release.needs_group:
            raise ReplayFailure(f"Member {member_id} is not a member of group {self.group_id}.")
        return False

    def row(self, offsets_partition: int) -> GroupRow:
        return GroupRow(
            offsets_partition,
            self.group_id,
            self.group_type,
            self.state,
            is_simple=False,
            protocol_type=self.group_type,
            group_epoch=self.group_epoch,
            assignment_epoch=none_if_unset(self.assignment_epoch),
            state_since=self.state_since,
            member_count=len(self.members),
            metadata_hash=self.metadata_hash if self.release.has_metadata_hash else None,
            log_offset=self.log_offset,
            **self.own_facts(),
        )

    def own_facts(self) -> dict[str, Any]:
        """The columns that only groups of this type have."""
        return {}

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
        member = self.members[member_id]
        metadata = member.metadata or self.unknown_metadata
        state = member.member_state
        return MemberRow(
            offsets_partition,
            self.group_id,
            member_id,
            group_instance_id=metadata.get("instanceId"),
            client_id=metadata["clientId"],
            client_host=metadata["clientHost"],
            rack_id=metadata["rackId"],
            rebalance_timeout_ms=none_if_unset(metadata.get("rebalanceTimeoutMs")),
            member_epoch=none_if_unset(member.member_epoch),
            previous_member_epoch=none_if_unset(member.previous_member_epoch),
            member_state=None if state is None else self.states.get(state, "UNKNOWN"),
            log_offset=member.log_offset,
            **self.own_columns(member, metadata, topics),
        )

    def own_columns(self, member: Any, metadata: Value, topics: Topics) -> dict[str, Any]:
        """The columns of a member that depend on the type of the group."""
        raise NotImplementedError


def unique(entries: Iterable[Value], key: str, item: Callable[[Value], Item]) -> dict[Any, Item]:
    """The entries by `key`. Raises ReplayFailure if a key is repeated (as Java's Collectors.toMap throws)."""
    result: dict[Any, Item] = {}
    for entry in entries:
        if entry[key] in result:
            raise ReplayFailure(f"Duplicate key {entry[key]}")
        result[entry[key]] = item(entry)
    return result


def assigned_partitions(entries: Iterable[Value]) -> dict[str, dict[int, int | None]]:
    """{topic id: {partition: None}} of an assignment. Raises ReplayFailure if a topic is repeated."""
    return unique(entries, "topicId", lambda entry: dict.fromkeys(sorted(entry["partitions"])))


# The member epoch at which each partition of a consumer group is owned.
#
# The load fails if two members own one partition at the same epoch, or if a later record has a smaller epoch (Kafka
# ConsumerGroup.addPartitionEpochs). Before KAFKA-19862 (4.0.2, 4.1.2, 4.2.0) it fails if a partition has an owner
# already, at any epoch, and if a partition is given up at another epoch than the owned one. Changes before the failure
# stay, in the order of Java's hash maps.


Key = TypeVar("Key")


class PartitionEpochs:
    """{topic id: {partition: member epoch}}."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self.epochs: dict[str, dict[int, int]] = {}

    def remove(self, assigned: Partitions, epoch: int) -> None:
        """Removes the partitions that are owned at `epoch`. Strict: raises ReplayFailure if one is not."""
        for topic_id in in_hash_order(assigned):
            owned = self.epochs.get(topic_id)
            if owned is None:
                if self.is_strict:
                    raise ReplayFailure(
                        f"Cannot remove the epoch {epoch} from {topic_id} because it does not have any epoch"
                    )
                continue
            self._remove(owned, assigned[topic_id], epoch, topic_id)
            if not owned:
                del self.epochs[topic_id]

    def _remove(self, owned: dict[int, int], partitions: Iterable[int], epoch: int, topic_id: str) -> None:
        for partition in integers_in_hash_order(partitions):
            owner = owned.get(partition)
            if owner == epoch:
                del owned[partition]
            elif self.is_strict:
                owned.pop(partition, None)
                raise ReplayFailure(
                    f"Cannot remove the epoch {epoch} from {topic_id}-{partition} because the partition is "
                    f"still owned at a different epoch {owner}"
                )

    def add(self, assigned: Partitions, epoch: int) -> None:
        """Notes that the partitions are owned at `epoch`. Unless strict, a greater epoch replaces a smaller one."""
        for topic_id in in_hash_order(assigned):
            owned = self.epochs.setdefault(topic_id, {})
            for partition in integers_in_hash_order(assigned[topic_id]):
                owner = owned.get(partition)
                if owner is not None and (self.is_strict or owner >= epoch):
                    if self.is_strict:
                        owned[partition] = epoch
                    raise ReplayFailure(
                        f"Cannot set the epoch of {topic_id}-{partition} to {epoch} because the partition is "
                        f"still owned at epoch {owner}"
                    )
                owned[partition] = epoch


def in_hash_order(topic_ids: Iterable[str]) -> list[str]:
    """Topic ids in the iteration order of a java.util.HashMap."""
    ids = list(topic_ids)
    return ids if len(ids) < 2 else _by_bucket(ids, [_uuid_hash(topic_id) for topic_id in ids])


def integers_in_hash_order(numbers: Iterable[int]) -> list[int]:
    """Integers in the iteration order of a java.util.HashMap."""
    keys = list(numbers)
    return keys if len(keys) < 2 else _by_bucket(keys, keys)


def _by_bucket(keys: list[Key], hashes: list[int]) -> list[Key]:
    capacity = 16
    while capacity * 3 // 4 < len(keys):
        capacity *= 2
    buckets = [((h & 0xFFFFFFFF) ^ ((h & 0xFFFFFFFF) >> 16)) & (capacity - 1) for h in hashes]
    return [key for _, _, key in sorted(zip(buckets, range(len(keys)), keys, strict=True), key=lambda item: item[:2])]


def _uuid_hash(topic_id: str) -> int:
    raw = base64.urlsafe_b64decode(topic_id + "==")
    bits = int.from_bytes(raw[:8], "big") ^ int.from_bytes(raw[8:16], "big")
    return (bits >> 32) ^ (bits & 0xFFFFFFFF)


STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS = 0, 1, 2
STATES = {STABLE: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


class ConsumerMember(NamedTuple):
    """A member. `metadata` is its type-5 value, None if only a current assignment (type 8) names it."""

    member_id: str
    metadata: Value | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    member_state: int = STABLE
    assigned: Partitions = {}  # noqa: RUF012  never changed in place
    pending_revocation: Partitions = {}  # noqa: RUF012
    # Only in 3.7's early-access layout: the epoch that the member is moving to.
    target_member_epoch: int | None = None
    log_offset: int | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        epoch = self.member_epoch if self.target_member_epoch is None else self.target_member_epoch
        return self.member_state == STABLE and epoch == assignment_epoch


# Kafka's ConsumerGroupMember.Builder starts from these values.
UNKNOWN_METADATA: dict[str, Any] = {
    "instanceId": None,
    "rackId": None,
    "clientId": "",
    "clientHost": "",
    "subscribedTopicNames": [],
    "subscribedTopicRegex": "",
    "rebalanceTimeoutMs": -1,
    "serverAssignor": None,
    "classicMemberMetadata": None,
}


class ConsumerGroup(ModernGroup):
    group_type = "consumer"
    member_class = ConsumerMember
    states = STATES
    unknown_metadata = UNKNOWN_METADATA
    unassigned = {"assigned": {}, "pending_revocation": {}, "target_member_epoch": None}  # noqa: RUF012

    def __init__(self, release: Release, group_id: str) -> None:
        super().__init__(release, group_id)
        self.regexes: dict[str, list[str]] = {}
        self.partition_epochs = PartitionEpochs(release.strict_partition_epochs)

    def replay_own(self, record_type: int, name: str, value: Value | None) -> None:
        # Type 4 only lists topics and their partitions; since 4.1 only its tombstones are written.
        if record_type == 16:
            self.regexes.pop(name, None)
            if value is not None:
                self.regexes[name] = sorted(set(value["topics"]))

    def removed(self, member: ConsumerMember) -> None:
        self.partition_epochs.remove(member.assigned, member.member_epoch)
        self.partition_epochs.remove(member.pending_revocation, member.member_epoch)

    def assignment_of(self, value: Value) -> dict[str, Any]:
        state: int | None = value["state"]
        if state is None:
            # 3.7's layout has none: the pending partitions imply it.
            state = UNRELEASED_PARTITIONS if value.get("partitionsPendingAssignment") else STABLE
            state = UNREVOKED_PARTITIONS if value["partitionsPendingRevocation"] else state
        return {
            "member_state": state,
            "assigned": self._with_epochs(value["assignedPartitions"], value["memberEpoch"]),
            "pending_revocation": self._with_epochs(value["partitionsPendingRevocation"], value["memberEpoch"]),
            "target_member_epoch": value.get("targetMemberEpoch"),
        }

    def _with_epochs(self, entries: list[Value], member_epoch: int) -> Partitions:
        """Partitions with the epoch of their assignment; the member's epoch if there is not one for each (KIP-1251)."""
        if not self.release.has_assignment_epochs:
            return assigned_partitions(entries)
        return {entry["topicId"]: _epochs(entry, max(member_epoch, 0)) for entry in entries}

    def store(self, member: ConsumerMember) -> None:
        """Stores the member. If its partitions collide, the member is stored but the group's state stays as it was."""
        before = self.members.get(member.member_id)
        if self.release.checks_partition_epochs:
            self._state = self.state
        self.members[member.member_id] = member
        if self.release.checks_partition_epochs:
            if before is not None:
                self.removed(before)
            self.partition_epochs.add(member.assigned, member.member_epoch)
            self.partition_epochs.add(member.pending_revocation, member.member_epoch)
        self.changed()

    def own_facts(self) -> dict[str, Any]:
        return {"resolved_regex_topics": dict(sorted(self.regexes.items())) or None}

    def own_columns(self, member: ConsumerMember, metadata: Value, topics: Topics) -> dict[str, Any]:
        classic = metadata["classicMemberMetadata"]
        return {
            "session_timeout_ms": None if classic is None else classic["sessionTimeoutMs"],
            "uses_classic_protocol": classic is not None,
            "server_assignor": metadata["serverAssignor"],
            "subscribed_topics": sorted(set(metadata["subscribedTopicNames"])),
            "subscribed_regex": metadata["subscribedTopicRegex"] or None,
            "assigned_partitions": topics.of_ids(member.assigned),
            "pending_revocation_partitions": topics.of_ids(member.pending_revocation),
            "target_partitions": topics.of_ids(self.target.get(member.member_id, {})),
        }


def _epochs(entry: Value, default: int) -> dict[int, int | None]:
    partitions, epochs = entry["partitions"], entry.get("assignmentEpochs")
    if epochs is None or len(epochs) != len(partitions):
        return dict.fromkeys(sorted(partitions), default)
    return dict(sorted(dict(zip(partitions, epochs, strict=True)).items()))
