"""How each Kafka release replays __consumer_offsets: data only, no code of a rule.

There are two coordinators. Scala's (0.8 to 3.9, still selectable in 4.0) loads a partition and joins groups and offsets
at the end. Java's (KIP-848, opt-in in 3.7 to 3.9, the only one since 4.1) applies record by record. Names of releases
are "4.3", "4.0.0", "0.11.0.3". Without a suffix 3.7 to 3.9 mean their default coordinator, Scala's; "3.9-java" is
Java's. The facts and their sources: docs/coordinator-semantics.md, sections 1 to 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal, NamedTuple

from kgroups_spark.coordinator.rows import AssignedPartition
from kgroups_spark.words import DAY_MS, did_you_mean

NEWEST = "4.4"
# To be increased if a rule here or in the state machine changes, or if more records can be decoded. States of another
# version are rebuilt, together with versions and quarantine.
RULES_VERSION = 8


class Release(NamedTuple):
    """The replay rules of one release."""

    name: str
    coordinator: Literal["java", "scala"]
    # Record types that it replays. It skips other types, or its load fails at them (before KIP-915).
    record_types: frozenset[int]
    skips_unknown_types: bool = True
    # Types that it can decode but not replay: 4.0 has only the schema of type 15.
    unreplayable_types: frozenset[int] = frozenset()

    # T58: 3.7 and 4.0 used version 0 of some types for other layouts (name as in messages.CoordinatorRecord.layout).
    layout: str = ""
    # Highest value versions that it reads.
    legacy_offset_commit_version: int = 0
    offset_commit_version: int = 4
    group_metadata_version: int = 4

    # Offsets and transactions. KAFKA-19141: before 4.1 the topic id in a value of version 4 is an unknown tag.
    has_topic_ids: bool = True
    transactional_by: Literal["producer_id", "batch"] = "producer_id"
    tombstone_removes_pending: Literal["of_all_producers", "none", "of_its_transaction"] = "of_all_producers"
    commit_needs_newer_record: bool = True
    unknown_marker_ends_transaction: bool = False
    # KAFKA-19164: producer ids were noted per group and could stay noted forever.
    open_transactions_by: Literal["slot", "group", "nothing"] = "slot"
    # Scala: a group without metadata exists as long as it has offsets; Java: from its first value on.
    simple_groups_follow_offsets: bool = False

    # Classic groups.
    empty_group_keeps_protocol_type: bool = True
    # KAFKA-10401: 2.3 to 2.6.0 read the time of the state in values of version 2 alone, although they write version 3.
    reads_state_timestamp_of_version_3: bool = True
    # Whether a snapshot may not repeat a member id (but that of its last member), or a group.instance.id.
    repeated_member_id_fails: bool = True
    repeated_instance_id_fails: bool = True
    # 2.4 and newer parse subscriptions (Java after replacing the group); 2.7 to 4.3 do not catch some exceptions.
    damaged_subscription_fails: bool = True
    replaces_group_before_parsing: bool = True
    # T8: version 0 has no rebalance timeout. Java uses the session timeout wherever it is -1, Scala only in version 0.
    unset_rebalance_timeout_is_session_timeout: bool = True

    # Consumer, share and streams groups.
    fresh_epoch: int = 1
    simple_group_becomes: frozenset[str] = frozenset({"consumer", "streams"})
    # Values of these types create the group, or the member; other types need it to exist.
    creates_group: frozenset[int] = frozenset()
    creates_member: frozenset[int] = frozenset()
    # Records of these types fail if the group (or member) is missing; tombstones of other types are ignored then.
    needs_group: frozenset[int] = frozenset()
    # Before KAFKA-19862, giving up a partition at another epoch than the owned one failed the load.
    strict_partition_epochs: bool = False
    checks_partition_epochs: bool = True
    has_metadata_hash: bool = True
    has_assignment_epochs: bool = True
    # 4.3 refuses assignment epochs below -1 and negative timestamps (TargetAssignmentMetadata).
    checks_assignment_metadata: bool = True
    share_member_keeps_state: bool = True
    # 4.1 computes a streams group's topology after the load: until then no group with members is ready.
    streams_ready_by_validated_epoch: bool = True
    # The validated topology epoch of a streams group whose metadata record is missing.
    unset_topology_epoch: int = -1
    has_task_epochs: bool = True

    @property
    def version(self) -> tuple[float, ...]:
        """The numbers of its name, for comparison; without a patch number, its last patch release (infinity)."""
        numbers = tuple(float(number) for number in self.name.removesuffix("-java").split("."))
        return numbers if len(numbers) > 2 else (*numbers, math.inf)

    def fails_to_read(self, record_type: int, value_version: int | None) -> bool:
        """Whether its load fails to decode a record of that type and value version (None: a tombstone)."""
        if record_type not in self.record_types and record_type not in self.unreplayable_types:
            return not self.skips_unknown_types
        if value_version is None:
            return False
        newest = {
            0: self.legacy_offset_commit_version,
            1: self.offset_commit_version,
            2: self.group_metadata_version,
        }.get(record_type, 0)
        return not 0 <= value_version <= newest

    def reads_layout(self, layout: str) -> bool:
        """Whether it reads values in that layout: "" is the released one; "?3.7" fits the released one and 3.7's."""
        return layout.strip("?") in ("", self.layout) or layout.startswith("?")


OFFSET_AND_CLASSIC = frozenset({0, 1, 2})
CONSUMER = frozenset({3, 4, 5, 6, 7, 8})
SHARE_40 = frozenset({9, 10, 11, 12, 13, 14})
SHARE = frozenset({10, 11, 12, 13, 14, 15})
REGULAR_EXPRESSION = frozenset({16})
STREAMS = frozenset({17, 19, 20, 21, 22, 23})
TYPES_43 = OFFSET_AND_CLASSIC | CONSUMER | SHARE | REGULAR_EXPRESSION | STREAMS
MEMBER_TYPES = frozenset({5, 8, 10, 14, 19, 22})

V44 = Release(
    "4.4",
    "java",
    TYPES_43,
    creates_group=TYPES_43,
    creates_member=MEMBER_TYPES,
    damaged_subscription_fails=False,
)
V43 = V44._replace(name="4.3", unset_topology_epoch=0, damaged_subscription_fails=True)
V42 = V43._replace(name="4.2", fresh_epoch=0, has_assignment_epochs=False, checks_assignment_metadata=False)
V42_0 = V42._replace(name="4.2.0", simple_group_becomes=frozenset({"consumer"}))  # KAFKA-20254 came with 4.2.1
V41 = V42_0._replace(
    name="4.1",
    share_member_keeps_state=False,
    streams_ready_by_validated_epoch=False,
    has_task_epochs=False,
)
V41_1 = V41._replace(name="4.1.1", strict_partition_epochs=True)
TYPES_40 = OFFSET_AND_CLASSIC | CONSUMER | SHARE_40 | REGULAR_EXPRESSION
V40 = V41._replace(
    name="4.0",
    record_types=TYPES_40,
    unreplayable_types=frozenset({15}),
    legacy_offset_commit_version=4,
    creates_group=CONSUMER | REGULAR_EXPRESSION | {10, 11},
    creates_member=frozenset({5, 8, 10}),
    needs_group=SHARE_40,
    has_metadata_hash=False,
    has_topic_ids=False,
    layout="4.0",
)
V40_1 = V40._replace(name="4.0.1", strict_partition_epochs=True)
V40_0 = V40_1._replace(name="4.0.0", open_transactions_by="group")
V38_JAVA = V40_0._replace(
    name="3.8-java",
    record_types=OFFSET_AND_CLASSIC | CONSUMER,
    unreplayable_types=frozenset(),
    simple_group_becomes=frozenset(),
    layout="",
    creates_group=frozenset({3, 5}),
    creates_member=frozenset({5}),
    needs_group=CONSUMER,
)
V39_JAVA = V38_JAVA._replace(name="3.9-java")
V37_JAVA = V38_JAVA._replace(
    name="3.7-java",
    layout="3.7",
    checks_partition_epochs=False,
    tombstone_removes_pending="none",
    commit_needs_newer_record=False,
    open_transactions_by="nothing",
)

V39 = Release(
    "3.9",
    "scala",
    OFFSET_AND_CLASSIC,
    legacy_offset_commit_version=4,
    transactional_by="batch",
    tombstone_removes_pending="of_its_transaction",
    unknown_marker_ends_transaction=True,
    open_transactions_by="nothing",
    simple_groups_follow_offsets=True,
    replaces_group_before_parsing=False,
    unset_rebalance_timeout_is_session_timeout=False,
    has_topic_ids=False,
)
V34_0 = V39._replace(
    name="3.4.0",
    skips_unknown_types=False,
    legacy_offset_commit_version=3,
    offset_commit_version=3,
    group_metadata_version=3,
)
V28 = V34_0._replace(name="2.8", repeated_instance_id_fails=False)
V26 = V28._replace(name="2.6", damaged_subscription_fails=False)
V25 = V26._replace(name="2.5", reads_state_timestamp_of_version_3=False)
V22 = V26._replace(name="2.2", group_metadata_version=2)
V20 = V22._replace(
    name="2.0",
    legacy_offset_commit_version=1,
    offset_commit_version=1,
    group_metadata_version=1,
    repeated_member_id_fails=False,
)
V011 = V20._replace(name="0.11", empty_group_keeps_protocol_type=False)  # KAFKA-6287 came with 1.0.1
V010_0 = V011._replace(name="0.10.0", group_metadata_version=0)
V08 = V010_0._replace(name="0.8", legacy_offset_commit_version=0, offset_commit_version=-1)

SCALA_LINES = {
    V39: ("3.9", "3.8", "3.7", "3.6", "3.5", "3.4"),
    V34_0: ("3.4.0", "3.3", "3.2", "3.1", "3.0"),
    V28: ("2.8", "2.7"),
    V26: ("2.6",),
    V25: ("2.6.0", "2.5", "2.4", "2.3"),
    V22: ("2.2", "2.1"),
    V20: ("2.0", "1.1", "1.0"),
    V011: ("1.0.0", "0.11", "0.10.2", "0.10.1"),
    V010_0: ("0.10.0", "0.9"),
    V08: ("0.8",),
}
V41_0 = V41_1._replace(name="4.1.0")
JAVA = (V44, V43, V42, V42_0, V41, V41_1, V41_0, V40, V40_1, V40_0, V39_JAVA, V38_JAVA, V37_JAVA)
RELEASES: dict[str, Release] = {
    **{rules.name: rules for rules in JAVA},
    **{name: rules._replace(name=name) for rules, names in SCALA_LINES.items() for name in names},
}


def release(version: str) -> Release:
    """The rules of the longest known name that `version` begins with. Raises ValueError, which names the newest release
    if this is newer, else lists the nearest names, or all."""
    match = re.fullmatch(r"v?(\d+(?:\.\d+)*)(-java)?", version.strip().lower())
    numbers, suffix = (match[1].split("."), match[2] or "") if match else ([], "")
    for length in range(len(numbers), 1, -1):
        found = RELEASES.get(".".join(numbers[:length]) + suffix)
        if found is not None:
            return found
    if len(numbers) > 1 and [int(number) for number in numbers[:2]] > [int(number) for number in NEWEST.split(".")]:
        raise ValueError(f"release {version!r} is unknown; the newest known one is {NEWEST}")
    nearest = did_you_mean(version, RELEASES) or f"; known are {', '.join(RELEASES)}"
    raise ValueError(f"release {version!r} is unknown{nearest}")


# When committed offsets and groups expire, per Kafka release from 0.8 to 4.4: data only.
#
# Two coordinators do the clean-up: Scala's (to 3.9) and Java's (from 3.7 on, the default in 4.0). Sources:
# `GroupMetadata.removeExpiredOffsets` and `GroupMetadataManager.cleanupGroupMetadata` (Scala), `OffsetManager.compact`
# (0.8.2); `OffsetMetadataManager.cleanupExpiredOffsets`, `ClassicGroup.offsetExpirationCondition`,
# `StreamsGroup.isSubscribedToTopic` and `Group.shouldExpire` (Java).


class OpenTransactionRule(Enum):
    """Whether a group with pending transactional offsets survives a clean-up that removes its last committed offset."""

    ALWAYS = "the group stays"
    IF_IT_HAS_OFFSETS = "the group stays if it had a committed offset; with pending ones alone it goes"
    NEVER = "nobody looks"


class ExpiryRules(NamedTuple):
    """The rules of one release's clean-up. Durations in milliseconds."""

    default_retention_ms: int  # default of offsets.retention.minutes
    is_strict: bool  # an offset still exists in the millisecond in which it is due
    honours_expire_timestamp: bool  # a time set by the client takes precedence over commit time plus retention
    v1_without_expire_timestamp_expired: bool  # -1 in a v1 value is read as a time, the millisecond before 1970
    depends_on_group: bool  # state, members and subscriptions matter; False: commit time alone does (before KIP-211)
    subscription_states: frozenset[str]  # classic `consumer` groups: states in which unsubscribed topics expire
    topology_unread_states: frozenset[str]  # streams groups: states in which no topic counts as subscribed
    pending_transaction_spares: bool  # a pending offset keeps the committed one of its partition
    open_transaction: OpenTransactionRule
    deletes_share_groups: bool
    # The clean-up asks a share group with committed offsets for an expiration condition. Share groups have none, and
    # the exception ends the clean-up of the whole offsets partition (GroupCoordinatorShard.cleanupGroupMetadata).
    share_offsets_end_clean_up: bool
    # A streams group survives its offsets while a plugin holds its topology description (StreamsGroup.shouldExpire).
    keeps_described_streams_groups: bool
    tombstone_at_generation_0: bool  # deleting a group that no member ever joined writes a tombstone, too


_EMPTY = frozenset({"Empty", "Dead"})
_STABLE = frozenset({"Stable"})
_JOINED = frozenset({"PreparingRebalance", "CompletingRebalance", "Stable"})

_V0_8 = ExpiryRules(
    default_retention_ms=DAY_MS,
    is_strict=True,
    honours_expire_timestamp=False,
    v1_without_expire_timestamp_expired=False,
    depends_on_group=False,
    subscription_states=frozenset(),
    topology_unread_states=_EMPTY,
    pending_transaction_spares=False,
    open_transaction=OpenTransactionRule.ALWAYS,
    deletes_share_groups=True,
    share_offsets_end_clean_up=False,
    keeps_described_streams_groups=False,
    tombstone_at_generation_0=False,
)
_V0_9 = _V0_8._replace(honours_expire_timestamp=True)
_V2_0 = _V0_9._replace(default_retention_ms=7 * DAY_MS)  # KIP-186
_V2_2 = _V2_0._replace(is_strict=False, depends_on_group=True)  # KIP-211
_V2_1 = _V2_2._replace(v1_without_expire_timestamp_expired=True)  # KAFKA-8069
_V2_4 = _V2_2._replace(subscription_states=_JOINED)  # KIP-496
_V3_2 = _V2_4._replace(subscription_states=_STABLE)  # KAFKA-13636

_V3_7_JAVA = _V3_2._replace(open_transaction=OpenTransactionRule.NEVER, tombstone_at_generation_0=True)
_V3_8_JAVA = _V3_7_JAVA._replace(
    pending_transaction_spares=True, open_transaction=OpenTransactionRule.IF_IT_HAS_OFFSETS
)
_V4_0_0 = _V3_8_JAVA._replace(share_offsets_end_clean_up=True)
_V4_0_1 = _V4_0_0._replace(open_transaction=OpenTransactionRule.ALWAYS)  # KAFKA-19163
# KAFKA-19016, from 4.1 on: the clean-up calls Group.shouldExpire first.
_V4_2 = _V4_0_1._replace(deletes_share_groups=False, share_offsets_end_clean_up=False)
_V4_1 = _V4_2._replace(topology_unread_states=_EMPTY | {"NotReady"})
# The clean-up removes offsets first again, then calls Group.shouldExpire.
_V4_4 = _V4_2._replace(share_offsets_end_clean_up=True, keeps_described_streams_groups=True)

# The first version with these rules, oldest first.
_SCALA = (
    ((0, 8), _V0_8),
    ((0, 9), _V0_9),
    ((2, 0), _V2_0),
    ((2, 1), _V2_1),
    ((2, 2), _V2_2),
    ((2, 4), _V2_4),
    ((2, 8, 2), _V3_2),
    ((3, 0), _V2_4),
    ((3, 0, 1), _V3_2),
    ((3, 1), _V2_4),
    ((3, 1, 1), _V3_2),
)
_JAVA = (
    ((3, 7), _V3_7_JAVA),
    ((3, 8), _V3_8_JAVA),
    ((4, 0), _V4_0_0),
    ((4, 0, 1), _V4_0_1),
    ((4, 1), _V4_1),
    ((4, 2), _V4_2),
    ((4, 4), _V4_4),
)

_LAST_MINOR = {0: 11, 1: 1, 2: 8, 3: 9, 4: 4}  # of each major version; 0 begins at 8
_VERSION = re.compile(r"v?(\d+)\.(\d+)((?:\.\d+){0,2})(-java)?")


def expiry_rules(release_version: str) -> ExpiryRules:
    """The rules of a release (`4.3`, `4.0.0`); without a patch number, of the last patch release. 3.7 to 3.9 mean the
    Scala coordinator, `3.7-java` to `3.9-java` Java's. Raises ValueError for an unknown one."""
    match = _VERSION.fullmatch(release_version.strip().lower())
    if match:
        major, minor = int(match[1]), int(match[2])
        is_java = bool(match[4])
        known = minor <= _LAST_MINOR.get(major, -1) and (major, minor) >= (0, 8)
        if known and (not is_java or (3, 7) <= (major, minor) <= (3, 9)):
            patch = tuple(float(number) for number in match[3].split(".")[1:]) or (math.inf,)
            steps = _JAVA if is_java or major >= 4 else _SCALA
            return next(rules for first, rules in reversed(steps) if first <= (major, minor, *patch))
    raise ValueError(
        f"Kafka release {release_version!r} is unknown: 0.8 to 0.11, 1.0, 1.1, 2.0 to 2.8, 3.0 to 3.9, 4.0 to 4.4 are "
        "known, each with or without a patch number, and 3.7-java, 3.8-java, 3.9-java"
    )


# The failure that ends a real coordinator's load.


class ReplayFailure(Exception):
    """A record that the release's coordinator fails to replay, so it would serve nothing of the partition. Kafka's
    changes before its exception are made: who goes on has the state of Kafka's classes with that record skipped."""


def unknown_version(record_type: int, value_version: int) -> str:
    return f"Found an unknown record version {value_version} for {record_type} type"


# Names of topic ids, and ids of topic names, as far as the log has them.


# The assignment of a modern member: {topic id: {partition: assignment epoch or None}}.
Partitions = dict[str, dict[int, int | None]]


class Topics:
    """Topic ids in the log. An id keeps its first name; a name has the id that was seen last."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, int | None, str]] = {}
        self.ids: dict[str, str] = {}

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        """Notes that a record names the topic. Only the first record that names an id counts."""
        named = self.names.setdefault(topic_id, (topic, log_timestamp, source))
        if named[0] == topic:
            self.ids[topic] = topic_id

    def of_ids(self, partitions: Partitions) -> list[AssignedPartition]:
        """An assignment by topic ids, sorted, with names (None: unknown)."""
        return sorted(
            (
                AssignedPartition(
                    self.names[topic_id][0] if topic_id in self.names else None, topic_id, partition, epoch
                )
                for topic_id, epochs in partitions.items()
                for partition, epoch in epochs.items()
            ),
            key=lambda assigned: (assigned.topic or "", assigned.topic_id or "", assigned.partition),
        )

    def of_names(self, assignment: Iterable[dict[str, Any]]) -> list[AssignedPartition]:
        """An assignment by topic names, sorted, with ids (None: unknown)."""
        return sorted(
            (
                AssignedPartition(entry["topic"], self.ids.get(entry["topic"]), partition, None)
                for entry in assignment
                for partition in entry["partitions"]
            ),
            key=lambda assigned: (assigned.topic or "", assigned.partition),
        )
