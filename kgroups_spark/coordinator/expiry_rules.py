"""When committed offsets and groups expire, per Kafka release from 0.8 to 4.4: data only.

Two coordinators do the clean-up: Scala's (to 3.9) and Java's (from 3.7 on, the default in 4.0). Sources:
`GroupMetadata.removeExpiredOffsets` and `GroupMetadataManager.cleanupGroupMetadata` (Scala), `OffsetManager.compact`
(0.8.2); `OffsetMetadataManager.cleanupExpiredOffsets`, `ClassicGroup.offsetExpirationCondition`,
`StreamsGroup.isSubscribedToTopic` and `Group.shouldExpire` (Java).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum

from kgroups_spark.durations import DAY_MS


class OpenTransactionRule(Enum):
    """Whether a group with pending transactional offsets survives a clean-up that removes its last committed offset."""

    ALWAYS = "the group stays"
    IF_IT_HAS_OFFSETS = "the group stays if it had a committed offset; with pending ones alone it goes"
    NEVER = "nobody looks"


@dataclass(frozen=True)
class ExpiryRules:
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
_V0_9 = replace(_V0_8, honours_expire_timestamp=True)
_V2_0 = replace(_V0_9, default_retention_ms=7 * DAY_MS)  # KIP-186
_V2_2 = replace(_V2_0, is_strict=False, depends_on_group=True)  # KIP-211
_V2_1 = replace(_V2_2, v1_without_expire_timestamp_expired=True)  # KAFKA-8069
_V2_4 = replace(_V2_2, subscription_states=_JOINED)  # KIP-496
_V3_2 = replace(_V2_4, subscription_states=_STABLE)  # KAFKA-13636

_V3_7_JAVA = replace(_V3_2, open_transaction=OpenTransactionRule.NEVER, tombstone_at_generation_0=True)
_V3_8_JAVA = replace(
    _V3_7_JAVA, pending_transaction_spares=True, open_transaction=OpenTransactionRule.IF_IT_HAS_OFFSETS
)
_V4_0_0 = replace(_V3_8_JAVA, share_offsets_end_clean_up=True)
_V4_0_1 = replace(_V4_0_0, open_transaction=OpenTransactionRule.ALWAYS)  # KAFKA-19163
# KAFKA-19016, from 4.1 on: the clean-up calls Group.shouldExpire first.
_V4_2 = replace(_V4_0_1, deletes_share_groups=False, share_offsets_end_clean_up=False)
_V4_1 = replace(_V4_2, topology_unread_states=_EMPTY | {"NotReady"})
# The clean-up removes offsets first again, then calls Group.shouldExpire.
_V4_4 = replace(_V4_2, share_offsets_end_clean_up=True, keeps_described_streams_groups=True)

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
    """The rules of a release: `4.3`, `4.0.0`, `0.10.2.1`.

    Without a patch number it is the last patch release. 3.7 to 3.9 mean the Scala coordinator, their default;
    `3.7-java` to `3.9-java` mean Java's, which was opt-in there. Raises ValueError for a release that is not known.
    """
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
