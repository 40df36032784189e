"""The part of a consumer's subscription that the coordinator itself uses."""

from __future__ import annotations

from kgroups_spark.messages.schema import Truncated, reader


def subscribed_topics(blob: bytes) -> list[str] | None:
    """The topics of a subscription as the coordinator reads it; None where it cannot.

    It skips the version, whatever it is, and reads version 0, which all versions begin with: a malformed tail, or a
    version that clients would refuse, does no harm (T16; ClassicGroup.computeSubscribedTopics 4.3,
    GroupMetadata.computeSubscribedTopics 2.4 to 3.9).
    """
    if len(blob) < 2:
        return None
    try:
        fields, _ = reader("ConsumerProtocolSubscription", 0).read(blob, 2, [])
    except Truncated:
        return None
    topics: list[str] = fields["topics"]
    return topics
