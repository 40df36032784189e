"""The value of a GroupMetadata record (type 2): the one that is big.

Its members carry two protocol blobs each. They are parsed where the group's protocol type has a known protocol
(embedded.py), else, or if a blob cannot be parsed, kept as base64 under the name with `Raw` added. Blobs repeat within
and across records: each is parsed once while the cache holds it.
"""

from __future__ import annotations

from typing import Any

from kgroups_spark.messages.embedded import PROTOCOLS, read_blob
from kgroups_spark.messages.schema import base64_text

_CACHED_BLOB_BYTES = 32 << 20


class BlobCache:
    """Parsed blobs by definition and bytes; forgets all when it holds too much."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, bytes], tuple[dict[str, Any] | None, list[str]]] = {}
        self._size = 0

    def read(self, name: str, blob: bytes) -> tuple[dict[str, Any] | None, list[str]]:
        """As embedded.read_blob."""
        found = self._parsed.get((name, blob))
        if found is None:
            found = read_blob(name, blob)
            self._size += len(blob) + 1000  # what a parsed blob costs, roughly
            if self._size > _CACHED_BLOB_BYTES:
                self._parsed.clear()
                self._size = 0
            self._parsed[name, blob] = found
        return found

    def entry(self, field: str, name: str | None, blob: bytes, notes: list[str]) -> tuple[str, Any]:
        """Key and value for a blob in a record's fields; name None: no protocol known."""
        parsed, blob_notes = self.read(name, blob) if name else (None, [])
        notes.extend(blob_notes)
        if parsed is None:
            return f"{field}Raw", base64_text(blob)
        return field, parsed


def with_parsed_blobs(fields: dict[str, Any], blobs: BlobCache, notes: list[str]) -> dict[str, Any]:
    """The fields of a GroupMetadataValue whose blobs are bytes, with the blobs parsed."""
    subscription, assignment = PROTOCOLS.get(fields["protocolType"], (None, None))
    members = []
    for member in fields["members"]:
        *head, last, final = member.items()
        entries = [
            blobs.entry("subscription", subscription, last[1], notes),
            blobs.entry("assignment", assignment, final[1], notes),
        ]
        members.append(dict([*head, *entries]))
    return {**fields, "members": members}
