"""A consumer group of KIP-848: record types 3 to 8 and 16.

The state is the first of these that applies (Kafka ConsumerGroup.maybeUpdateGroupState). Empty: no members. Assigning:
the group epoch is above the assignment epoch. Reconciling: a member is not STABLE at the assignment epoch, which
includes a static member that is away, at epoch -2 (T36). Otherwise Stable. A current assignment (type 8) after the
member's removal creates a ghost member (T35).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kgroups_spark.coordinator.modern_group import LEFT, ModernGroup, Value, assigned_partitions, state_name
from kgroups_spark.coordinator.partition_epochs import PartitionEpochs
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.rows import MemberRow, none_if_unset
from kgroups_spark.coordinator.topics import Partitions, Topics

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
    # Only in 3.7's early-access layout: the epoch that the member is moving to. Later layouts derive it from state and
    # epoch.
    target_member_epoch: int | None = None
    log_offset: int | None = None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        epoch = self.member_epoch if self.target_member_epoch is None else self.target_member_epoch
        return self.member_state == STABLE and epoch == assignment_epoch


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    group_type = "consumer"

    def __init__(self, release: Release, group_id: str) -> None:
        super().__init__(release, group_id)
        self.regexes: dict[str, list[str]] = {}
        self.partition_epochs = PartitionEpochs(release.strict_partition_epochs)

    def replay(self, log_offset: int, record_type: int, name: str | None, value: Value | None) -> bool:
        """Applies a record; True: it removed the group. `name` is the member id or (type 16) the regular expression."""
        member_id = name or ""
        match record_type:
            case 3:
                if value is None:
                    self.check_removal(target_must_be_empty=True)
                    return True
                self.set_group_epoch(value)
            case 5:
                self._replay_metadata(log_offset, member_id, value)
            case 6:
                self.set_assignment_epoch(value)
            case 7:
                self.set_target(member_id, None if value is None else assigned_partitions(value["topicPartitions"]))
            case 8:
                self._replay_current_assignment(log_offset, member_id, value)
            case 16:
                self.regexes.pop(member_id, None)
                if value is not None:
                    self.regexes[member_id] = sorted(set(value["topics"]))
        # Type 4 only lists topics and their partitions; since 4.1 only its tombstones are written.
        return False

    def _replay_metadata(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(5, member_id, is_value=value is not None):
            return
        if value is not None:
            member = self.members.get(member_id) or ConsumerMember(member_id)
            self._update(member._replace(metadata=value, log_offset=log_offset))
            return
        self.check_member_removal(member_id)
        member = self.members.pop(member_id)
        self.partition_epochs.remove(member.assigned, member.member_epoch)
        self.partition_epochs.remove(member.pending_revocation, member.member_epoch)
        self.changed()

    def _replay_current_assignment(self, log_offset: int, member_id: str, value: Value | None) -> None:
        if not self.needs_member(8, member_id, is_value=value is not None):
            return
        member = self.members.get(member_id) or ConsumerMember(member_id)
        if value is None:
            member = member._replace(
                member_epoch=LEFT,
                previous_member_epoch=LEFT,
                assigned={},
                pending_revocation={},
                target_member_epoch=None,
                log_offset=log_offset,
            )
        else:
            epoch = value["memberEpoch"]
            member = member._replace(
                member_epoch=epoch,
                previous_member_epoch=value["previousMemberEpoch"],
                member_state=_member_state(value),
                assigned=self._with_epochs(value["assignedPartitions"], epoch),
                pending_revocation=self._with_epochs(value["partitionsPendingRevocation"], epoch),
                target_member_epoch=value.get("targetMemberEpoch"),
                log_offset=log_offset,
            )
        self._update(member)

    def _with_epochs(self, entries: list[Value], member_epoch: int) -> Partitions:
        """Partitions with the epoch of their assignment; the member's epoch if there is not one for each (KIP-1251)."""
        if not self.release.has_assignment_epochs:
            return assigned_partitions(entries)
        return {entry["topicId"]: _epochs(entry, max(member_epoch, 0)) for entry in entries}

    def _update(self, member: ConsumerMember) -> None:
        """Stores the member. If its partitions collide, the member is stored but the group's state stays as it was."""
        before = self.members.get(member.member_id)
        if self.release.checks_partition_epochs:
            self.settle_state()
        self.members[member.member_id] = member
        if self.release.checks_partition_epochs:
            if before is not None:
                self.partition_epochs.remove(before.assigned, before.member_epoch)
                self.partition_epochs.remove(before.pending_revocation, before.member_epoch)
            self.partition_epochs.add(member.assigned, member.member_epoch)
            self.partition_epochs.add(member.pending_revocation, member.member_epoch)
        self.changed()

    def _compute_state(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        for member in self.members.values():
            if not member.is_reconciled_to(self.assignment_epoch):
                return "Reconciling"
        return "Stable"

    def resolved_regex_topics(self) -> dict[str, list[str]] | None:
        return dict(sorted(self.regexes.items())) or None

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
        member = self.members[member_id]
        metadata = member.metadata or UNKNOWN_METADATA
        classic = metadata["classicMemberMetadata"]
        return MemberRow(
            offsets_partition,
            self.group_id,
            member_id,
            group_instance_id=metadata["instanceId"],
            client_id=metadata["clientId"],
            client_host=metadata["clientHost"],
            rack_id=metadata["rackId"],
            rebalance_timeout_ms=none_if_unset(metadata["rebalanceTimeoutMs"]),
            session_timeout_ms=None if classic is None else classic["sessionTimeoutMs"],
            member_epoch=none_if_unset(member.member_epoch),
            previous_member_epoch=none_if_unset(member.previous_member_epoch),
            member_state=state_name(STATES, member.member_state),
            uses_classic_protocol=classic is not None,
            server_assignor=metadata["serverAssignor"],
            subscribed_topics=sorted(set(metadata["subscribedTopicNames"])),
            subscribed_regex=metadata["subscribedTopicRegex"] or None,
            assigned_partitions=topics.of_ids(member.assigned),
            pending_revocation_partitions=topics.of_ids(member.pending_revocation),
            target_partitions=topics.of_ids(self.target.get(member_id, {})),
            log_offset=member.log_offset,
        )


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


def _member_state(value: Value) -> int:
    """The state in the value; in 3.7's layout, which has none, the state that the pending partitions imply."""
    state: int | None = value["state"]
    if state is not None:
        return state
    if value["partitionsPendingRevocation"]:
        return UNREVOKED_PARTITIONS
    return UNRELEASED_PARTITIONS if value.get("partitionsPendingAssignment") else STABLE


def _epochs(entry: Value, default: int) -> dict[int, int | None]:
    partitions, epochs = entry["partitions"], entry.get("assignmentEpochs")
    if epochs is None or len(epochs) != len(partitions):
        return dict.fromkeys(sorted(partitions), default)
    return dict(sorted(dict(zip(partitions, epochs, strict=True)).items()))
