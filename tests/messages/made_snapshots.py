"""Random GroupMetadata records of a few groups whose members come, stay, change and go: bytes, versions 0 to 4."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder
from tests.findings.record_bytes import blob
from tests.messages.group_record_bytes import member, snapshot

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
