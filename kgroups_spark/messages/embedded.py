"""Protocol blobs in group records: messages between clients, opaque to the coordinator.

A blob is an int16 version and a message that is never flexible. Readers take a version above their highest known one as
that one and ignore the rest. A negative version is an error (ConsumerProtocol.checkSubscriptionVersion 2.4+,
IncrementalCooperativeConnectProtocol 4.3). In each of these protocols, the fields of later versions are after those of
version 0, the base. Members of one group mostly have the same base.
"""

from __future__ import annotations

from functools import cache

import orjson

from kgroups_spark.messages.definition import definition
from kgroups_spark.messages.schema import MessageReader, Truncated

# protocol type -> the definitions of a member's subscription (Connect: metadata) and assignment
PROTOCOLS = {
    "consumer": ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment"),
    "connect": ("ConnectProtocolMetadata", "ConnectProtocolAssignment"),
}
LEFT_OVER = "bytes left over"
_CACHED_BYTES = 16 << 20


@cache
def _readers(name: str) -> list[tuple[MessageReader, MessageReader | None]]:
    """By version, the readers of the base and of the fields after it (None: there are none). Compiled once a process:
    that takes as long as reading a thousand blobs, and each range of a log has its own texts."""
    message = definition(name)
    base = [field for field in message.fields if 0 in field.versions]
    added = message.fields[len(base) :]
    return [
        (MessageReader(message, version, base), MessageReader(message, version, added) if added else None)
        for version in message.versions
    ]


class BlobTexts:
    """Caches the JSON texts of one kind of blob by their bytes; starts again when it is too large."""

    def __init__(self, name: str) -> None:
        self._readers = _readers(name)
        self._texts: dict[bytes, bytes] = {}
        self._notes: dict[bytes, list[str]] = {}  # only for blobs that have notes
        self._base = (b"?", b"")  # bytes and text of the last base, version included
        self._size = 0

    def text(self, blob: bytes, notes: list[str]) -> bytes:
        """The blob as a JSON object {"version": ..., its fields}; b'' if a client could not read it. Adds to
        `notes`."""
        text = self._texts.get(blob)
        if text is None:
            self._size += len(blob) + 256
            if self._size > _CACHED_BYTES:
                self._forget()
            text = self._read(blob)
            self._texts[blob] = text
        if self._notes and blob in self._notes:
            notes.extend(self._notes[blob])
        return text

    def _forget(self) -> None:
        self._texts.clear()
        self._notes.clear()
        self._size = 0

    def _read(self, blob: bytes) -> bytes:
        if len(blob) < 2 or blob[0] > 127:
            return b""
        notes: list[str] = []
        version = blob[0] << 8 | blob[1]
        base_reader, added_reader = self._readers[min(version, len(self._readers) - 1)]
        try:
            base, text = self._base
            if not blob.startswith(base):
                fields, end = base_reader.read(blob, 2, notes)
                base, text = blob[:end], orjson.dumps({"version": version, **fields})
                if not notes:
                    self._base = base, text
            end = len(base)
            if added_reader:
                added, end = added_reader.read(blob, end, notes)
                text = text[:-1] + b"," + orjson.dumps(added)[1:]
        except Truncated:
            return b""
        if end != len(blob):
            notes.append(LEFT_OVER)
        if notes:
            self._notes[blob] = notes
        return text
