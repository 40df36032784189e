"""The common part of consumer, share and streams groups: epochs, members, the target assignment.

Each record sets one part of the group or of a member (KIP-848), so the state is the sum of its records. As in Kafka,
`state` is computed after a record has changed one of its inputs: a record that fails half way leaves the previous
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.rows import GroupRow, MemberRow, none_if_unset
from kgroups_spark.coordinator.topics import Topics

LEFT = -1  # member epoch, and assignment epoch, after their tombstone
Value = dict[str, Any]


class ModernMember(Protocol):
    """A member of any of the three types."""

    @property
    def member_epoch(self) -> int | None: ...


Member = TypeVar("Member", bound=ModernMember)
Target = TypeVar("Target")
Item = TypeVar("Item")


class ModernGroup(Generic[Member, Target]):
    """A consumer, share or streams group. `target` is the target assignment by member id."""

    group_type: ClassVar[str]
    is_simple = False
    stored_description_epoch: int | None = None  # only streams groups have one

    def __init__(self, release: Release, group_id: str) -> None:
        self.release = release
        self.group_id = group_id
        self.group_epoch = release.fresh_epoch
        self.assignment_epoch = release.fresh_epoch
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, Target] = {}
        self.log_offset: int | None = None
        self.state_since: int | None = None
        self._state: str | None = "Empty"

    @property
    def state(self) -> str:
        return self.settle_state()

    def settle_state(self) -> str:
        """The state, computed again if one of its inputs has changed since."""
        if self._state is None:
            self._state = self._compute_state()
        return self._state

    def _compute_state(self) -> str:
        raise NotImplementedError

    def changed(self) -> None:
        """Notes that an input of the state has changed."""
        self._state = None

    def restore(self, saved: Value) -> None:
        """Takes the common fields from a saved state."""
        self.group_epoch = saved["group_epoch"]
        self.assignment_epoch = saved["assignment_epoch"]
        self.metadata_hash = saved["metadata_hash"]
        self._state = saved["state"]

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

    def set_target(self, member_id: str, target: Target | None) -> None:
        """Applies a record of type 7, 13 or 21; None: its tombstone."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def check_removal(self, *, target_must_be_empty: bool) -> None:
        """Raises ReplayFailure if the tombstone of the group comes before those of its parts."""
        start = f"Received a tombstone record to delete group {self.group_id} but"
        if self.members:
            raise ReplayFailure(f"{start} the group still has {len(self.members)} members.")
        if target_must_be_empty and self.target:
            raise ReplayFailure(f"{start} the target assignment still has {len(self.target)} members.")
        if self.assignment_epoch != LEFT:
            raise ReplayFailure(f"{start} did not receive the tombstone of its target assignment's metadata.")

    def check_member_removal(self, member_id: str) -> None:
        """Raises ReplayFailure if the tombstone of the member comes before those of its assignments (T34)."""
        start = f"Received a tombstone record to delete member {member_id} but"
        if self.members[member_id].member_epoch != LEFT:
            raise ReplayFailure(f"{start} did not receive the tombstone of its current assignment.")
        if member_id in self.target:
            raise ReplayFailure(f"{start} did not receive the tombstone of its target assignment.")

    def needs_member(self, record_type: int, member_id: str, *, is_value: bool) -> bool:
        """Whether the record applies to a member: the member exists, or the record creates it.

        Raises ReplayFailure in releases whose load fails otherwise (3.7 to 3.9; share groups of 4.0).
        """
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
            resolved_regex_topics=self.resolved_regex_topics(),
            topology=self.topology_json(),
            stored_description_epoch=self.stored_description_epoch,
            log_offset=self.log_offset,
        )

    def resolved_regex_topics(self) -> dict[str, list[str]] | None:
        return None

    def topology_json(self) -> str | None:
        return None

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
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


def state_name(states: Mapping[int, str], number: int) -> str:
    """Kafka's name of a member state, UNKNOWN for any other number."""
    return states.get(number, "UNKNOWN")
