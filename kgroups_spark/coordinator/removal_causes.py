"""Why committed offsets and groups went: what is in the log, and which explanations it leaves.

The tombstones that a coordinator writes in one batch are one *act* (group_events.py). Each explanation needs:

    expired         the offset was due by the release's rules and the retention, in an Empty group for no more than
                    OVERDUE_MS (a check comes every ten minutes, or when a broker is back); where the group went,
                    all of its offsets were
    group_deleted   the group went in the same act, and nothing of it was left. Scala writes no tombstone of a simple
                    group: all of its offsets went, and more than one of them where single offsets could be deleted, too
                    (what is pending may be left). In a log that Scala may have begun, also by Java's rules
    offset_deleted  the group stayed, and did not subscribe to the topic (Kafka refuses to delete such offsets)
    topic_deleted   no group of the offsets partition has an offset of the topic any more, or the group subscribes
                    to it, and Java's group stayed

A tombstone whose value the log does not have any more leaves all of them: unknown.

A due offset counts as expired: a deletion by hand before the next check writes the same. Else the only
explanation is the cause; if one act took the topic from several groups, topic_deleted; several: unknown.

`facts -> cause` is data (DECISIONS); what the facts are is computed here from the state before the act.
"""

from __future__ import annotations

from typing import NamedTuple

from kgroups_spark.coordinator.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kgroups_spark.coordinator.consumer_group import UNKNOWN_METADATA, ConsumerGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.expiry_rules import ExpiryRules
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.share_group import ShareGroup
from kgroups_spark.coordinator.streams_group import StreamsGroup
from kgroups_spark.coordinator.subscription import subscribed_topics

EXPIRED, GROUP_DELETED, OFFSET_DELETED, TOPIC_DELETED, UNKNOWN = (
    "expired",
    "group_deleted",
    "offset_deleted",
    "topic_deleted",
    "unknown",
)
CAUSES = (EXPIRED, GROUP_DELETED, OFFSET_DELETED, TOPIC_DELETED, UNKNOWN)

# Overdue for longer than this, expiry is one explanation among others: the retention may be another one.
OVERDUE_MS = 86_400_000


class RemovedValue(NamedTuple):
    """The facts of a removed value that explain its removal. Times are ms; None: the value has none."""

    committed_offset: int
    topic_id: str | None
    commit_timestamp: int
    expire_timestamp: int | None
    value_version: int


class Fits(NamedTuple):
    """Which explanations the log leaves for a removal. `is_late`: due for longer than OVERDUE_MS."""

    expired: bool
    group_deleted: bool
    offset_deleted: bool
    topic_deleted: bool
    is_late: bool
    several_groups: bool


# The first row whose facts all hold decides; None: either.
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
    """The cause, by DECISIONS; where no row holds, several explanations are left, or none."""
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
    """When a committed offset is due, in ms; None: not as the group stands. The rules are those of the package expiry,
    for one offset."""
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
    """Whether no offset of the topic expires as the group stands."""
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
    found: set[str] = set()
    for member in group.members.values():
        try:
            topics = subscribed_topics(member)
        except ReplayFailure:
            return None
        if topics is None:
            return None
        found.update(topics)
    return found
