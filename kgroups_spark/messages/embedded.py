"""Protocol blobs inside group records: what clients tell each other, opaque to the coordinator.

A blob is an int16 version and a message that is never flexible. Readers take a version above the highest they know as
the highest and ignore the rest; a negative version is an error (ConsumerProtocol.checkSubscriptionVersion 2.4+,
IncrementalCooperativeConnectProtocol 4.3).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kgroups_spark.messages.definition import definition
from kgroups_spark.messages.schema import MessageReader, Truncated, reader

# protocol type -> the definitions of a member's subscription (Connect: metadata) and assignment
PROTOCOLS = {
    "consumer": ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    "connect": ("ConnectProtocolMetadata", "ConnectProtocolAssignment"),
}


@cache
def _readers(name: str) -> tuple[MessageReader, ...]:
    return tuple(reader(name, version) for version in definition(name).versions)


def read_blob(name: str, blob: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """{"version": ..., fields} of the blob, None if a client could not read it; and notes on what the fields lack."""
    if len(blob) < 2 or blob[0] > 127:
        return None, []
    version = blob[0] << 8 | blob[1]
    known = _readers(name)
    notes: list[str] = []
    try:
        fields, end = known[min(version, len(known) - 1)].read(blob, 2, notes)
    except Truncated:
        return None, []
    if end != len(blob):
        notes.append("bytes left over")
    return {"version": version, **fields}, notes
