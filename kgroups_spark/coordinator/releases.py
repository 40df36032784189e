"""How each Kafka release replays __consumer_offsets: data only, no code of a rule.

There are two coordinators. Scala's (0.8 to 3.9, still selectable in 4.0) loads a partition and joins groups and offsets
at the end. Java's (KIP-848, opt-in in 3.7 to 3.9, the only one since 4.1) applies record by record. Names of releases
are "4.3", "4.0.0", "0.11.0.3". Without a suffix 3.7 to 3.9 mean their default coordinator, Scala's; "3.9-java" is
Java's. The facts and their sources: docs/coordinator-semantics.md, sections 1 to 5.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from kgroups_spark.nearest import did_you_mean

NEWEST = "4.4"
# To be increased if a rule here or in the state machine changes, or if more records can be decoded. States of another
# version are rebuilt, together with versions and quarantine.
RULES_VERSION = 8


@dataclass(frozen=True)
class Release:
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
    # 2.4 and newer parse the members' subscriptions (for expiry); Java does so after it has replaced the group. Some
    # exceptions are not caught from 2.7 to 4.3.
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
V43 = replace(V44, name="4.3", unset_topology_epoch=0, damaged_subscription_fails=True)
V42 = replace(V43, name="4.2", fresh_epoch=0, has_assignment_epochs=False, checks_assignment_metadata=False)
V42_0 = replace(V42, name="4.2.0", simple_group_becomes=frozenset({"consumer"}))  # KAFKA-20254 came with 4.2.1
V41 = replace(
    V42_0,
    name="4.1",
    share_member_keeps_state=False,
    streams_ready_by_validated_epoch=False,
    has_task_epochs=False,
)
V41_1 = replace(V41, name="4.1.1", strict_partition_epochs=True)
TYPES_40 = OFFSET_AND_CLASSIC | CONSUMER | SHARE_40 | REGULAR_EXPRESSION
V40 = replace(
    V41,
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
V40_1 = replace(V40, name="4.0.1", strict_partition_epochs=True)
V40_0 = replace(V40_1, name="4.0.0", open_transactions_by="group")
V38_JAVA = replace(
    V40_0,
    name="3.8-java",
    record_types=OFFSET_AND_CLASSIC | CONSUMER,
    unreplayable_types=frozenset(),
    simple_group_becomes=frozenset(),
    layout="",
    creates_group=frozenset({3, 5}),
    creates_member=frozenset({5}),
    needs_group=CONSUMER,
)
V39_JAVA = replace(V38_JAVA, name="3.9-java")
V37_JAVA = replace(
    V38_JAVA,
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
V34_0 = replace(
    V39,
    name="3.4.0",
    skips_unknown_types=False,
    legacy_offset_commit_version=3,
    offset_commit_version=3,
    group_metadata_version=3,
)
V28 = replace(V34_0, name="2.8", repeated_instance_id_fails=False)
V26 = replace(V28, name="2.6", damaged_subscription_fails=False)
V25 = replace(V26, name="2.5", reads_state_timestamp_of_version_3=False)
V22 = replace(V26, name="2.2", group_metadata_version=2)
V20 = replace(
    V22,
    name="2.0",
    legacy_offset_commit_version=1,
    offset_commit_version=1,
    group_metadata_version=1,
    repeated_member_id_fails=False,
)
V011 = replace(V20, name="0.11", empty_group_keeps_protocol_type=False)  # KAFKA-6287 came with 1.0.1
V010_0 = replace(V011, name="0.10.0", group_metadata_version=0)
V08 = replace(V010_0, name="0.8", legacy_offset_commit_version=0, offset_commit_version=-1)

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
V41_0 = replace(V41_1, name="4.1.0")
JAVA = (V44, V43, V42, V42_0, V41, V41_1, V41_0, V40, V40_1, V40_0, V39_JAVA, V38_JAVA, V37_JAVA)
RELEASES: dict[str, Release] = {
    **{rules.name: rules for rules in JAVA},
    **{name: replace(rules, name=name) for rules, names in SCALA_LINES.items() for name in names},
}


def release(version: str) -> Release:
    """The rules of the release that `version` names: those with the longest known name that `version` begins with.

    Raises ValueError, which names the newest one if this is newer, else lists the nearest names, or all of them.
    """
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
