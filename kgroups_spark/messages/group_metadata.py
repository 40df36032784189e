"""The value of a GroupMetadata record (type 2) as JSON text: the one that is big.

Its members carry two protocol blobs each. They are parsed where the group's protocol type has a known protocol
(embedded.py), else, or if a blob cannot be parsed, kept as base64 under the name with `Raw` added.

Decoding makes sure that the bytes are a sound value. The text is made when asked for, and the value from the text.
"""

from __future__ import annotations

from typing import Any

import orjson

from kgroups_spark.messages.embedded import PROTOCOLS, BlobTexts
from kgroups_spark.messages.schema import base64_text


class ProtocolTexts:
    """The texts of blobs of every protocol, and how they are in a record's fields."""

    def __init__(self) -> None:
        self._texts = {name: BlobTexts(name) for names in PROTOCOLS.values() for name in names}

    def group_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """A GroupMetadataValue, whose blobs are bytes; changes its members."""
        subscription, assignment = PROTOCOLS.get(fields["protocolType"], (None, None))
        for member in fields["members"]:
            self.put(member, "subscription", subscription, notes)
            self.put(member, "assignment", assignment, notes)
        return orjson.dumps(fields)

    def member_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """A ConsumerGroupMemberMetadataValue: a member with the classic protocol brings consumer subscriptions."""
        classic = fields["classicMemberMetadata"]
        for protocol in classic["supportedProtocols"] if classic else ():
            self.put(protocol, "metadata", "ConsumerProtocolSubscription", notes)
        return orjson.dumps(fields)

    def put(self, fields: dict[str, Any], field: str, name: str | None, notes: list[str]) -> None:
        """Puts the parsed blob in the place of its bytes. `name` is its definition, None: no protocol known."""
        blob = fields[field]
        text = self._texts[name].text(blob, notes) if name else b""
        if text:
            fields[field] = orjson.Fragment(text)
            return
        after = list(fields.items())
        fields.clear()
        for key, value in after:  # in the same place, under the other name
            if key == field:
                key, value = f"{field}Raw", base64_text(blob)
            fields[key] = value
