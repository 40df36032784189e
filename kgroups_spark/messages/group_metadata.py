"""The value of a GroupMetadata record (type 2), the largest one, as JSON text.

Each of its members has two protocol blobs. They are parsed if the group's protocol type has a known protocol
(embedded.py). Otherwise, or if a blob cannot be parsed, they are kept as base64 under their name with `Raw` added.

Decoding ensures that the bytes are a sound value. The text is made on request, and the value from the text.
"""

from __future__ import annotations

from typing import Any

import orjson

from kgroups_spark.messages.embedded import PROTOCOLS, BlobTexts
from kgroups_spark.messages.schema import base64_text


class ProtocolTexts:
    """The texts of blobs of every protocol, and their form in a record's fields."""

    def __init__(self) -> None:
        self._texts = {name: BlobTexts(name) for names in PROTOCOLS.values() for name in names}

    def group_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """The JSON text of a GroupMetadataValue, whose blobs are bytes. Changes its members."""
        subscription, assignment = PROTOCOLS.get(fields["protocolType"], (None, None))
        for member in fields["members"]:
            self.put(member, "subscription", subscription, notes)
            self.put(member, "assignment", assignment, notes)
        return orjson.dumps(fields)

    def member_metadata_json(self, fields: dict[str, Any], notes: list[str]) -> bytes:
        """The JSON text of a ConsumerGroupMemberMetadataValue. Members with the classic protocol have subscriptions of
        the consumer protocol."""
        classic = fields["classicMemberMetadata"]
        for protocol in classic["supportedProtocols"] if classic else ():
            self.put(protocol, "metadata", "ConsumerProtocolSubscription", notes)
        return orjson.dumps(fields)

    def put(self, fields: dict[str, Any], field: str, name: str | None, notes: list[str]) -> None:
        """Replaces the bytes of a blob by the parsed one. `name`: its definition, None: no known protocol."""
        blob = fields[field]
        text = self._texts[name].text(blob, notes) if name else b""
        if text:
            fields[field] = orjson.Fragment(text)
            return
        after = list(fields.items())
        fields.clear()
        for key, value in after:  # keeps the order of the fields
            if key == field:
                key, value = f"{field}Raw", base64_text(blob)
            fields[key] = value
