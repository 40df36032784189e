"""Values of group records as bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder
from tests.findings.record_bytes import blob, record
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


# Random GroupMetadata records of a few groups whose members come, stay, change and go: bytes, versions 0 to 4.


# Texts that JSON escapes, that look like a piece of the value's own JSON, and that Java would not read as UTF-8.
ODD_TEXTS = [
    b'q"uote',
    b"back\\slash\\",
    b"line\nend\r\t\x08\x0c",
    b"nul\0\x01\x7f",
    "é\u2028\ufeff\U0001f986".encode(),
    b'{"memberId":"m"',
    b'"},{"memberId":"m',
    b'"}},{"memberId":"m"}]}',
    b',"userData":null}}]}',
    b"",
    b"\xff\xc3",
    b"\xed\xa0\x80",
    b"x" * 300,
]
# Blobs that no client can read, or that say more than their text does.
ODD_BLOBS = [b"\0", b"\xff\xff" + bytes(8), bytes(5), b"\0\x01\0\0\0\x05\0\x01a"]

Record = tuple[bytes, bytes | None]
Member = dict[str, Any]


class Snapshots:
    """`odd`: how often something is odd, of 1; `members`: of how many the groups are drawn."""

    def __init__(self, seed: int, *, odd: float = 0.05, members: int = 8) -> None:
        self._chance = random.Random(seed)
        self._odd = odd
        self._count = members
        self._groups: dict[bytes, dict[bytes, Member]] = {b"a": {}, b"b": {}, 'é"'.encode(): {}}

    def records(self, count: int) -> list[Record]:
        """So many records that decode."""
        found: list[Record] = []
        while len(found) < count:
            found += [record for record in self._next() if _decodes(*record)]
        return found[:count]

    def _next(self) -> Iterator[Record]:
        chance, group = self._chance, self._chance.choice([*self._groups])
        key = b"\0\2" + len(group).to_bytes(2, "big") + group
        if chance.random() < 0.1:
            yield key, None
            return
        members = self._groups[group]
        for number in chance.sample(range(self._count), self._count // 3):
            member_id = self._text(b"m%d" % number)
            if chance.random() < 0.4:
                members.pop(member_id, None)
            else:
                members[member_id] = self._member(member_id)
        yield key, self._value([*members.values()])
        if chance.random() < 0.3:
            yield key, self._value([*members.values()])  # once more, perhaps in another version

    def _value(self, members: list[Member]) -> bytes:
        chance = self._chance
        if members and chance.random() < self._odd:
            members = [*members, chance.choice(members)]
        fields = {
            "protocolType": chance.choice([b"connect", b"", b"consumers"]) if self._is_odd() else b"consumer",
            "generation": chance.randrange(4),
            "protocol": chance.choice([b"range", None]),
            "leader": chance.choice([self._text(b"m1"), None]),
            "currentStateTimestamp": chance.randrange(-1, 2),
        }
        version, tail = chance.choice([0, 1, 2, 3, 3, 3, 4]), b"!" if self._is_odd() else b""
        return snapshot(members, version, tagged=self._is_odd(), **fields) + tail

    def _member(self, member_id: bytes) -> Member:
        chance = self._chance
        return member(
            memberId=member_id,
            groupInstanceId=chance.choice([None, None, b"i-" + member_id, b"i"][: 4 if self._is_odd() else 3]),
            clientId=self._text(chance.choice([b"c", b"d"])),
            clientHost=self._text(b"/h"),
            rebalanceTimeout=chance.choice([-1, 5]),
            sessionTimeout=chance.choice([10, 2**31 - 1]),
            subscription=self._blob("ConsumerProtocolSubscription", self._subscription()),
            assignment=self._blob("ConsumerProtocolAssignment", {"assignedPartitions": self._topics()}),
        )

    def _is_odd(self) -> bool:
        return self._chance.random() < self._odd

    def _text(self, usual: bytes) -> bytes:
        return self._chance.choice(ODD_TEXTS) if self._is_odd() else usual

    def _blob(self, name: str, value: dict[str, Any]) -> bytes:
        usual = blob(name, {"userData": None, **value}, self._chance.randrange(4))
        chance = self._chance.random()
        if chance < self._odd / 2:
            return self._chance.choice(ODD_BLOBS)
        if chance < self._odd:
            return usual + b"!"  # bytes left over
        return b"" if chance < self._odd + 0.15 else usual

    def _subscription(self) -> dict[str, Any]:
        chance = self._chance
        topics = [self._text(chance.choice([b"t", b"u", b"tt"])) for _ in range(chance.randrange(4))]
        owned = chance.choice([[], self._topics()])
        return {
            "topics": topics,
            "userData": chance.choice([b"x", None]),
            "ownedPartitions": owned,
            "generationId": 0,
            "rackId": chance.choice([b"r1", None]),
        }

    def _topics(self) -> list[dict[str, Any]]:
        chance = self._chance
        names = [self._text(chance.choice([b"t", b"u", b"tt"])) for _ in range(chance.randrange(4))]
        numbers = [-1, 2**31 - 1, *range(8)]
        return [
            {"topic": name, "partitions": [chance.choice(numbers) for _ in range(chance.randrange(5))]}
            for name in names
        ]


def _decodes(key: bytes, value: bytes | None) -> bool:
    return isinstance(GroupRecordDecoder().decode(key, value), CoordinatorRecord)
