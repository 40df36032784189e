"""A classic group: its last GroupMetadata value (type 2), or no value if it exists only by its offsets.

A value replaces the whole group, of any type. State after a load (semantics section 5.1): Stable with members, Empty
without. PreparingRebalance and CompletingRebalance are never logged (T60). A group without a protocol type is simple,
whether a record names it (the placeholder of 4.3, T43) or only offsets do (T18).
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import orjson

from kgroups_spark.coordinator.group_snapshots import SnapshotMembers
from kgroups_spark.coordinator.releases import Release, ReplayFailure, Topics
from kgroups_spark.coordinator.rows import AssignedPartition, GroupRow, MemberName, MemberRow
from kgroups_spark.messages.group_metadata import user_data_json

# Topics of a classic member's subscription, as the coordinator itself reads it.
#
# The coordinator reads the version of the blob, ignores it and parses the rest as version 0, which is a prefix of all
# others (Kafka GroupMetadata.computeSubscribedTopics since 2.4, ClassicGroup.computeSubscribedTopics):
#
#     version int16, topics array of string (int32 count, int16 lengths), userData nullable bytes (int32 length)
#
# A blob that ends inside a number is unparsable: then the group's topics are unknown, and none of its offsets expires
# (T15). A blob that ends inside a string, or has a negative length where that is not allowed, throws an exception that
# the coordinator does not catch from 2.7 to 4.3; before and since it is unparsable like the other.

Member = dict[str, Any]


def subscribed_topics(member: Member) -> list[str] | None:
    """Topics of a GroupMetadata member's `subscription`, or of its base64 `subscriptionRaw`, in order; None if the blob
    is unparsable. Raises ReplayFailure if Kafka's load fails."""
    parsed = member.get("subscription")
    if parsed is not None:
        topics: list[str] = parsed["topics"]
        return topics
    try:
        return topics_of_blob(base64.b64decode(member.get("subscriptionRaw") or ""))
    except struct.error:
        return None


def known_topics(member: Member) -> list[str] | None:
    """The same; None also if Kafka's load fails."""
    try:
        return subscribed_topics(member)
    except ReplayFailure:
        return None


def topics_of_blob(blob: bytes) -> list[str]:
    """Topics of a version-0 subscription. Raises struct.error if a number is cut, ReplayFailure for other damage."""
    (count,) = struct.unpack_from(">i", blob, 2) if len(blob) >= 2 else struct.unpack(">i", b"")
    if not 0 <= count <= len(blob) - 6:
        raise ReplayFailure(f"subscription of {count} topics in {len(blob)} bytes")
    position = 6
    topics = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", blob, position)
        position += 2
        if not 0 <= length <= len(blob) - position:
            raise ReplayFailure(f"subscription with a topic of {length} bytes where {len(blob) - position} are left")
        topics.append(blob[position : position + length].decode("utf-8", errors="replace"))
        position += length
    (length,) = struct.unpack_from(">i", blob, position)
    if length > len(blob) - position - 4:
        raise ReplayFailure(f"subscription with user data of {length} bytes, more than are left")
    return topics


CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicGroup:
    """The state of one classic group. `value`: its GroupMetadata value, None for a group that an offset commit created;
    members are dicts or SnapshotMembers. `log_offset` None: only offsets name the group."""

    group_type = "classic"

    def __init__(
        self, release: Release, group_id: str, value: dict[str, Any] | None = None, value_version: int = 0
    ) -> None:
        self.release = release
        self.group_id = group_id
        self.value = value
        self.value_version = value_version
        self.log_offset: int | None = None
        self.state_since: int | None = None
        self.member_list = [] if value is None else value["members"]
        # The same if they are decoded on demand.
        self.members_on_demand = self.member_list if isinstance(self.member_list, SnapshotMembers) else None

    @cached_property
    def members(self) -> dict[str, dict[str, Any]]:
        """The value's members by id, computed once: a group is only replaced, never changed."""
        return {member["memberId"]: member for member in self.member_list}

    @cached_property
    def member_numbers(self) -> dict[str, int]:
        """The member's index in the value, by member id; the last index of a repeated id."""
        members = self.members_on_demand
        ids = [member["memberId"] for member in self.member_list] if members is None else members.texts("member_id")
        return dict(zip(ids, range(len(ids)), strict=True))

    def chosen(self, member_ids: Sequence[str]) -> list[int] | list[MemberName]:
        """The numbers of these members if they are decoded on demand, else their names."""
        if self.members_on_demand is not None:
            return [*map(self.member_numbers.__getitem__, member_ids)]
        found = map(self.members.__getitem__, member_ids)
        return [(m["memberId"], m.get("groupInstanceId"), m.get("clientId"), m.get("clientHost")) for m in found]

    @property
    def member_fingerprints(self) -> dict[str, bytes]:
        """Each member's fingerprint by member id; empty unless members are decoded on demand."""
        members = self.members_on_demand
        if members is None:
            return {}
        found = members.fingerprints()
        return {member_id: found[number] for member_id, number in self.member_numbers.items()}

    @cached_property
    def topics(self) -> set[str] | None:
        """The topics that it subscribes to; None: unknown."""
        if not self.member_list:
            return set()
        # Only members can read subscriptions of other protocols.
        if self.value is None or self.value["protocol"] is None or self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        members = self.members_on_demand
        if members is not None and len(self.member_numbers) == len(members):  # no repeated ids
            return members.topics()
        found: set[str] = set()
        for member in self.members.values():
            topics = known_topics(member)
            if topics is None:
                return None
            found.update(topics)
        return found

    @cached_property
    def member_facts(self) -> dict[str, object]:
        """The sources of the members' rows, by member id."""
        protocol_type = self.protocol_type
        return {member_id: (protocol_type, member) for member_id, member in self.members.items()}

    @cached_property
    def assignments(self) -> list[str | None]:
        """The members' assignments as JSON, in the value's order: [{"topic": ..., "partition": ...}, ...]. None: it
        cannot be parsed, or the group's protocol type is not `consumer`."""
        if self.members_on_demand is not None:
            return self.members_on_demand.texts("assigned_partitions")
        is_consumer = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return [_assignment_text(member) if is_consumer else None for member in self.member_list]

    @property
    def state(self) -> str:
        return "Stable" if self.member_list else "Empty"

    @property
    def protocol_type(self) -> str | None:
        """The protocol type, None for simple groups. With members it may be "" (Kafka takes the first member's)."""
        if self.value is None:
            return None
        if self.value["members"]:
            protocol_type: str = self.value["protocolType"]
            return protocol_type
        return (self.value["protocolType"] or None) if self.release.empty_group_keeps_protocol_type else None

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None

    @property
    def leader(self) -> str | None:
        """The stored leader, else the first member (T44)."""
        if self.value is None:
            return None
        leader: str | None = self.value["leader"]
        if leader is None and self.value["members"]:
            leader = next(iter(self.member_numbers))
        return leader

    @property
    def current_state_timestamp(self) -> int | None:
        """The time of the state in the value, as the release reads it; None: unknown."""
        is_read = self.value_version < 3 or self.release.reads_state_timestamp_of_version_3
        timestamp = self.value["currentStateTimestamp"] if self.value is not None and is_read else -1
        return None if timestamp == -1 else timestamp

    def row(self, offsets_partition: int) -> GroupRow:
        value, protocol_type = self.value, self.protocol_type
        return GroupRow(
            offsets_partition,
            self.group_id,
            self.group_type,
            self.state,
            protocol_type is None,
            protocol_type,
            protocol=None if value is None else value["protocol"],
            generation=0 if value is None else value["generation"],
            leader=self.leader,
            current_state_timestamp=self.current_state_timestamp,
            state_since=self.state_since,
            member_count=len(self.member_numbers),
            log_offset=self.log_offset,
        )

    def member_row(self, offsets_partition: int, member_id: str, topics: Topics) -> MemberRow:
        member = self.members[member_id]
        is_consumer = self.protocol_type == CONSUMER_PROTOCOL_TYPE
        subscription = (member.get("subscription") if is_consumer else None) or {}
        session, rebalance = member["sessionTimeout"], member["rebalanceTimeout"]
        if rebalance == -1:  # T8
            has_default = self.release.unset_rebalance_timeout_is_session_timeout or self.value_version == 0
            rebalance = session if has_default else None
        topics_read = known_topics(member) if is_consumer else None
        text = subscription.get("userData")
        user_data = None if text is None else base64.b64decode(text)
        return MemberRow(
            offsets_partition,
            self.group_id,
            member_id,
            group_instance_id=member["groupInstanceId"],
            client_id=member["clientId"],
            client_host=member["clientHost"],
            rack_id=subscription.get("rackId"),
            rebalance_timeout_ms=rebalance,
            session_timeout_ms=session,
            uses_classic_protocol=True,
            subscribed_topics=None if topics_read is None else sorted(set(topics_read)),
            assigned_partitions=_assigned_partitions(member, topics) if is_consumer else None,
            user_data=user_data,
            user_data_json=user_data_json((self.value or {}).get("protocol"), user_data),
            log_offset=self.log_offset,
        )


def _assigned_partitions(member: dict[str, Any], topics: Topics) -> list[AssignedPartition] | None:
    """The member's partitions. None: the blob does not parse. An empty blob means that the member never synced."""
    assignment = member.get("assignment")
    if assignment is not None:
        return topics.of_names(assignment["assignedPartitions"])
    return [] if not member.get("assignmentRaw") else None


def _assignment_text(member: dict[str, Any]) -> str | None:
    assignment = member.get("assignment")
    if assignment is None:
        return None if member.get("assignmentRaw") else "[]"
    topics = assignment["assignedPartitions"]
    assigned = sorted((each["topic"], number) for each in topics for number in each["partitions"])
    return orjson.dumps([{"topic": topic, "partition": number} for topic, number in assigned]).decode()


def check_members(group: ClassicGroup) -> None:
    """Raises ReplayFailure if Kafka's ClassicGroup.add (GroupMetadata.add) refuses one of the value's members."""
    on_demand, members = group.members_on_demand, group.member_list
    column = on_demand.texts("group_instance_id") if on_demand else [each["groupInstanceId"] for each in members]
    if group.release.repeated_instance_id_fails and len({*column} - {None}) < len(column) - column.count(None):
        instance, _ = Counter(each for each in column if each is not None).most_common(1)[0]
        raise ReplayFailure(
            f"Static member with groupInstanceId={instance} cannot be added to group {group.group_id} "
            "since it is already a member."
        )
    # Kafka counts a repeated member's protocols twice, then finds none that all support and refuses the next.
    if group.release.repeated_member_id_fails and len(group.member_numbers) < len(members):
        ids = on_demand.texts("member_id") if on_demand else [each["memberId"] for each in members]
        if len({*ids[:-1]}) < len(ids) - 1:
            raise ReplayFailure(f"None of the protocols of a member of group {group.group_id} can be supported.")


def check_subscriptions(value: dict[str, Any]) -> None:
    """Raises ReplayFailure if parsing a subscription throws an exception that the coordinator does not catch."""
    if value["protocolType"] != CONSUMER_PROTOCOL_TYPE or value["protocol"] is None:
        return
    if isinstance(value["members"], SnapshotMembers):
        return
    # The group has the last member of a repeated id alone.
    members = {member["memberId"]: member for member in value["members"]}
    for member in members.values():
        if member.get("subscription") is None and subscribed_topics(member) is None:
            return  # Kafka stops at the first unparsable one: the group's topics are unknown
