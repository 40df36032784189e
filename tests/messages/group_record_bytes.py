"""Values of group records as bytes."""

from __future__ import annotations

from tests.findings.record_bytes import record
from tests.messages.vectors import KEY_OF_TYPE

KEY = KEY_OF_TYPE[2]
UUID = bytes.fromhex("0123456789abcdef1122334455667788")
SUBSCRIPTION = bytes.fromhex("00000000000100016100000000")  # version 0, topic "a", user data of no bytes
ASSIGNMENT = bytes.fromhex("0001 00000002 0001 61 00000002 00000000 00003039 0001 62 00000000 00000001 07")
COOPERATIVE = bytes.fromhex("0003 00000001 0001 61 ffffffff 00000001 0001 61 00000001 80000000 ffffffff 0002 7231")


def text(value):
    return len(value).to_bytes(2, "big") + value.encode()


def member(**fields):
    """A member of a GroupMetadataValue."""
    usual = {"memberId": "m", "groupInstanceId": None, "clientId": "c", "clientHost": "/h"}
    return {**usual, "rebalanceTimeout": 1, "sessionTimeout": 2, "subscription": b"", "assignment": b"", **fields}


def snapshot(members, version=3, *, tagged=False, **fields):
    """A GroupMetadataValue with these members; `tagged`: of version 4, with an unknown tag."""
    value = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m"}
    _, data = record(2, {"group": "g"}, {**value, "currentStateTimestamp": 5, **fields, "members": members}, version)
    return data[:-1] + b"\1\x09\2ab" if tagged and version == 4 else data


def group_metadata(protocol_type, subscription, assignment):
    """One of version 3 with one member."""
    return snapshot([member(subscription=subscription, assignment=assignment)], protocolType=protocol_type)


def members(count):
    """One with that many members, all different."""
    made = []
    for i in range(count):
        subscription = bytes(6) + (i % 5).to_bytes(4, "big") + bytes(i % 5)  # version 0, no topics, some user data
        blobs = {"subscription": subscription if i % 3 else COOPERATIVE, "assignment": ASSIGNMENT if i % 4 else b""}
        made.append(
            member(memberId=f"m{i}", groupInstanceId=None if i % 2 else f"i{i}", clientId="c" * (i % 20), **blobs)
        )
    return snapshot(made, generation=7, leader=None)


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
