"""Members of classic groups as JSON."""

from __future__ import annotations

from tests.messages.group_record_bytes import sized, text
from tests.messages.vectors import KEY_OF_TYPE

KEY = KEY_OF_TYPE[2]
ASSIGNMENT = bytes.fromhex("0001 00000002 0001 61 00000002 00000000 00003039 0001 62 00000000 00000001 07")
COOPERATIVE = bytes.fromhex("0003 00000001 0001 61 ffffffff 00000001 0001 61 00000001 80000000 ffffffff 0002 7231")


def members(count):
    """A value with that many members, all different."""
    parts = [b"\0\3", text("consumer"), (7).to_bytes(4, "big"), text("p"), text(None)]
    parts += [bytes(8), count.to_bytes(4, "big")]
    for i in range(count):
        subscription = bytes(2) + bytes(4) + sized(bytes(i % 5))  # version 0, no topics, some user data
        parts += [text(f"m{i}"), text(None if i % 2 else f"i{i}"), text("c" * (i % 20)), text("/h"), bytes(8)]
        parts += [sized(subscription if i % 3 else COOPERATIVE), sized(ASSIGNMENT if i % 4 else b"")]
    return b"".join(parts)
