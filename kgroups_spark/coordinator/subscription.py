"""Topics of a classic member's subscription, as the coordinator itself reads it.

The coordinator reads the version of the blob, ignores it and parses the rest as version 0, which is a prefix of all
others (Kafka GroupMetadata.computeSubscribedTopics since 2.4, ClassicGroup.computeSubscribedTopics):

    version int16, topics array of string (int32 count, int16 lengths), userData nullable bytes (int32 length)

A blob that ends inside a number is unparsable: then the group's topics are unknown, and none of its offsets expires
(T15). A blob that ends inside a string, or has a negative length where that is not allowed, throws an exception that
the coordinator does not catch from 2.7 to 4.3; before and since it is unparsable like the other.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from kgroups_spark.coordinator.replay_failure import ReplayFailure

Member = dict[str, Any]


def subscribed_topics(member: Member) -> list[str] | None:
    """Topics of the member's subscription, in its order; None if the blob is unparsable.

    `member` is a member of a GroupMetadata value, with a parsed `subscription` or with `subscriptionRaw` in base64.
    Raises ReplayFailure if Kafka's load fails.
    """
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
