"""User data of assignors in a member's subscription, as JSON text: what Kafka's sticky assignors and Kafka Streams
remember there. Other assignors' data is opaque.

Kafka has a message file for Streams alone (SubscriptionInfoData); the sticky assignors' schemas are in
StickyAssignor and CooperativeStickyAssignor."""

from __future__ import annotations

from functools import lru_cache

import orjson

from kgroups_spark.messages.schema import Truncated, definition, reader

# By the name of the chosen protocol. Without a version in the bytes, the newest one that fits exactly counts.
_STREAMS = "stream"
_DEFINITIONS = {
    "sticky": "StickyAssignorUserData",
    "cooperative-sticky": "CooperativeStickyAssignorUserData",
    _STREAMS: "SubscriptionInfoData",
}


@lru_cache(4096)
def user_data_json(protocol: str | None, user_data: bytes | None) -> str | None:
    """The data as a JSON object, with defaults for fields that its version lacks; None: there is none, or its assignor
    or version is unknown."""
    name = _DEFINITIONS.get(protocol or "")
    if name is None or not user_data:
        return None
    versions = reversed(definition(name).versions)
    for version in [int.from_bytes(user_data[:4])] if protocol == _STREAMS else versions:
        if version in definition(name).versions:
            notes: list[str] = []
            try:
                fields, end = reader(name, version).read(user_data, 0, notes)
            except Truncated:
                continue
            if end == len(user_data) and not notes:
                return orjson.dumps(fields).decode()
    return None
