"""Why committed offsets and groups were removed: the facts in the log, and the explanations that fit them.

The tombstones that a coordinator writes in one batch are one *act* (group_events.py). Each explanation needs:

    expired         the offset was due by the release's rules and the retention, in an Empty group for no more than
                    OVERDUE_MS (checks run every ten minutes, or when a broker is back); if the group was removed, all
                    of its offsets were due
    group_deleted   the group was removed in the same act, and none of its offsets is left. Scala writes no tombstone
                    of a simple group: all of its offsets were removed, and more than one if single offsets can be
                    deleted, too (pending ones may be left). This also holds under Java's rules in a log that may
                    have begun under Scala
    offset_deleted  the group stayed, and did not subscribe to the topic (Kafka refuses to delete such offsets)
    topic_deleted   no group of the offsets partition has an offset of the topic left, or the group subscribes
                    to it, and Java's group stayed

If the log no longer has the removed value, all explanations fit: unknown.

An offset that was due counts as expired, because a manual deletion before the next check writes the same records.
Otherwise the only explanation that fits is the cause; topic_deleted if one act removed the topic from several groups;
unknown if several fit.

`facts -> cause` is data (DECISIONS); this module computes the facts from the state before the act.
"""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.coordinator.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kgroups_spark.coordinator.consumer_group import UNKNOWN_METADATA, ConsumerGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.coordinator.share_group import ShareGroup
from kgroups_spark.coordinator.streams_group import StreamsGroup
from kgroups_spark.coordinator.subscription import known_topics
from kgroups_spark.durations import DAY_MS

EXPIRED, GROUP_DELETED, OFFSET_DELETED, TOPIC_DELETED, UNKNOWN = (
    "expired",
    "group_deleted",
    "offset_deleted",
    "topic_deleted",
    "unknown",
)
CAUSES = (EXPIRED, GROUP_DELETED, OFFSET_DELETED, TOPIC_DELETED, UNKNOWN)

# If an offset was overdue for longer than this, expiry is only one explanation among others: the brokers' retention may
# differ from ours.
OVERDUE_MS = DAY_MS


class RemovedValue(NamedTuple):
    """The fields of a removed value that can explain its removal. Times are ms; None: the value has none."""

    committed_offset: int
    topic_id: str | None
    commit_timestamp: int
    expire_timestamp: int | None
    value_version: int


class Fits(NamedTuple):
    """Which explanations fit a removal. `is_late`: due for longer than OVERDUE_MS."""

    expired: bool
    group_deleted: bool
    offset_deleted: bool
    topic_deleted: bool
    is_late: bool
    several_groups: bool


# The first row with all its facts true decides; None: the fact does not matter.
DECISIONS: tuple[tuple[tuple[bool | None, ...], str], ...] = (
    # expired, group,  offset, topic,  late,  several groups
    ((True, None, None, None, False, None), EXPIRED),
    ((True, False, False, False, True, None), EXPIRED),
    ((True, None, None, None, True, None), UNKNOWN),
    ((False, True, False, False, None, None), GROUP_DELETED),
    ((False, False, True, False, None, None), OFFSET_DELETED),
    ((False, False, False, True, None, None), TOPIC_DELETED),
    ((False, False, True, True, None, True), TOPIC_DELETED),
)


def cause_of(fits: Fits) -> str:
    """The cause by DECISIONS; UNKNOWN if no row holds, because several explanations fit, or none."""
    for facts, cause in DECISIONS:
        if all(wanted is None or wanted == found for wanted, found in zip(facts, fits, strict=True)):
            return cause
    return UNKNOWN


def due_at(
    group: Group | None,
    topic: str,
    value: RemovedValue,
    rules: ExpiryRules,
    retention_ms: int,
    *,
    is_pending: bool,
) -> int | None:
    """When a committed offset is due, in epoch ms; None: it does not expire in the group's present state. The rules are
    those of the package expiry, applied to one offset."""
    if group is None or (is_pending and rules.pending_transaction_spares):
        return None
    base = None
    if rules.depends_on_group:
        if is_exempt(group, topic, rules):
            return None
        if isinstance(group, ClassicGroup) and group.state == "Empty" and group.protocol_type and group.value:
            since = group.value["currentStateTimestamp"]
            base = None if since == -1 else since
    strict = int(rules.is_strict)
    if rules.honours_expire_timestamp and value.expire_timestamp is not None:
        return value.expire_timestamp + strict
    if rules.v1_without_expire_timestamp_expired and value.value_version == 1:
        return strict - 1
    return (value.commit_timestamp if base is None else base) + retention_ms + strict


def is_exempt(group: Group, topic: str, rules: ExpiryRules) -> bool:
    """Whether no offset of the topic expires in the group's present state."""
    if isinstance(group, ShareGroup):
        return True
    if isinstance(group, ClassicGroup):
        if group.state == "Empty":
            return False
        if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.state not in rules.subscription_states:
            return True
    topics = topics_of(group, rules)
    return topics is None or topic in topics


def topics_of(group: Group, rules: ExpiryRules) -> set[str] | None:
    """Topics that the group subscribes to; None: unknown."""
    if isinstance(group, ClassicGroup):
        return _of_classic(group)
    if isinstance(group, ConsumerGroup):
        members = (member.metadata or UNKNOWN_METADATA for member in group.members.values())
        topics = {topic for metadata in members for topic in metadata["subscribedTopicNames"]}
        return topics.union(*group.regexes.values())
    if isinstance(group, StreamsGroup):
        if group.topology is None or group.state in rules.topology_unread_states:
            return set()
        found = set()
        for subtopology in group.topology["subtopologies"]:
            found |= {*subtopology["sourceTopics"], *(each["name"] for each in subtopology["repartitionSourceTopics"])}
        return found
    return set()


def _of_classic(group: ClassicGroup) -> set[str] | None:
    if group.value is None or not group.value["members"]:
        return set()
    # Only members can read subscriptions of other protocols.
    if group.value["protocol"] is None or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    on_demand = group.members_on_demand
    if on_demand is not None and len(group.member_numbers) == len(on_demand):  # no repeated ids
        return on_demand.topics()
    found: set[str] = set()
    for member in group.members.values():
        topics = known_topics(member)
        if topics is None:
            return None
        found.update(topics)
    return found
