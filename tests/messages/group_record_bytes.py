"""Bytes of group records, made by hand."""

from __future__ import annotations

UUID = bytes.fromhex("0123456789abcdef1122334455667788")
SUBSCRIPTION = bytes.fromhex("00000000000100016100000000")  # version 0, topic "a", user data of no bytes


def text(value):
    return b"\xff\xff" if value is None else len(value.encode()).to_bytes(2, "big") + value.encode()


def sized(value):
    return len(value).to_bytes(4, "big") + value


def group_metadata(protocol_type, subscription, assignment):
    """A GroupMetadataValue of version 3 with one member."""
    head = text(protocol_type) + bytes(4) + text("range") + text("m") + bytes(8) + bytes([0, 0, 0, 1])
    member = text("m") + text(None) + text("c") + text("/h") + bytes(8) + sized(subscription) + sized(assignment)
    return b"\0\3" + head + member


TOPIC_METADATA = b"\x02" + UUID + b"\x02t" + bytes.fromhex("00000002 02 00000000 02 0272 00 00")
EARLY = [
    (4, "3.7", bytes.fromhex("0000 00000007") + TOPIC_METADATA + b"\0", {"epoch": 7}),
    (
        5,
        "3.7",
        b"\0\0\0\0\2c\2/\1\0" + bytes(4) + b"\0" + b"\2\2n\0\1\0\2\0\0\3\3mm\0\0",
        {"classicMemberMetadata": None},
    ),
    (
        7,
        "3.7",
        b"\0\0\0\2" + UUID + b"\2\0\0\0\5\0" + b"\0\1" + b"\2x" + b"\0",
        {"metadataVersion": 1, "metadataBytes": "eA=="},
    ),
    (
        8,
        "3.7",
        b"\0\0" + bytes.fromhex("00000003 00000002 00000004 01 01 01 00 0000 01 00"),
        {"targetMemberEpoch": 4, "state": None},
    ),
    (11, "4.0", bytes.fromhex("0000 00000003 00"), {"epoch": 3, "metadataHash": None}),
    (15, "4.0", b"\0\0\2" + UUID + b"\2t\2\0\0\0\5\0\1\0", {"initializingTopics": []}),
]
