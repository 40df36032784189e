"""Random GroupMetadata records of a few groups whose members come, stay, change and go: bytes, versions 0 to 4."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder

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
        key = b"\0\2" + _short(group)
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
        kind = chance.choice([b"connect", b"", b"consumers"]) if chance.random() < self._odd else b"consumer"
        value = {
            "kind": kind,
            "generation": chance.randrange(4),
            "protocol": chance.choice([b"range", None]),
            "leader": chance.choice([self._text(b"m1"), None]),
            "since": chance.randrange(-1, 2),
            "members": members,
        }
        tail = b"!" if chance.random() < self._odd else b""
        return group_metadata(chance.choice([0, 1, 2, 3, 3, 3, 4]), value, tagged=chance.random() < self._odd) + tail

    def _member(self, member_id: bytes) -> Member:
        chance = self._chance
        return {
            "id": member_id,
            "instance": chance.choice([None, None, b"i-" + member_id, b"i"][: 4 if chance.random() < self._odd else 3]),
            "client": self._text(chance.choice([b"c", b"d"])),
            "host": self._text(b"/h"),
            "rebalance": chance.choice([-1, 5]),
            "session": chance.choice([10, 2**31 - 1]),
            "subscription": self._blob(self._subscription()),
            "assignment": self._blob(self._assignment()),
        }

    def _text(self, usual: bytes) -> bytes:
        return self._chance.choice(ODD_TEXTS) if self._chance.random() < self._odd else usual

    def _blob(self, usual: bytes) -> bytes:
        chance = self._chance.random()
        if chance < self._odd / 2:
            return self._chance.choice(ODD_BLOBS)
        if chance < self._odd:
            return usual + b"!"  # bytes left over
        return b"" if chance < self._odd + 0.15 else usual

    def _subscription(self) -> bytes:
        chance = self._chance
        version = chance.randrange(5)
        topics = [_short(self._text(chance.choice([b"t", b"u", b"tt"]))) for _ in range(chance.randrange(4))]
        found = (
            struct.pack(">hi", version, len(topics)) + b"".join(topics) + chance.choice([_sized(b"x"), _sized(None)])
        )
        found += chance.choice([bytes(4), self._topics()]) if version >= 1 else b""
        found += bytes(4) if version >= 2 else b""
        return found + (_short(chance.choice([b"r1", None])) if version >= 3 else b"")

    def _assignment(self) -> bytes:
        return struct.pack(">h", self._chance.randrange(5)) + self._topics() + _sized(None)

    def _topics(self) -> bytes:
        chance = self._chance
        entries = []
        for _ in range(chance.randrange(4)):
            partitions = [chance.choice([-1, 2**31 - 1, *range(8)]) for _ in range(chance.randrange(5))]
            name = _short(self._text(chance.choice([b"t", b"u", b"tt"])))
            entries.append(name + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions))
        return struct.pack(">i", len(entries)) + b"".join(entries)


def group_metadata(version: int, value: dict[str, Any], *, tagged: bool = False) -> bytes:
    """A GroupMetadataValue; `tagged`: of version 4, with an unknown tag."""
    text, sized = (_compact, _compact) if version == 4 else (_short, _sized)
    tags = (b"\1\x09\2ab" if tagged else b"\0") if version == 4 else b""
    found = struct.pack(">h", version) + text(value["kind"]) + struct.pack(">i", value["generation"])
    found += text(value["protocol"]) + text(value["leader"])
    found += struct.pack(">q", value["since"]) if version >= 2 else b""
    members = value["members"]
    found += _uvarint(len(members) + 1) if version == 4 else struct.pack(">i", len(members))
    parts = []
    for member in members:
        parts += [text(member["id"]), text(member["instance"]) if version >= 3 else b""]
        parts += [text(member["client"]), text(member["host"])]
        parts.append(struct.pack(">i", member["rebalance"]) if version >= 1 else b"")
        parts.append(struct.pack(">i", member["session"]))
        parts += [sized(member["subscription"]), sized(member["assignment"]), tags]
    return b"".join((found, *parts, tags))


def _decodes(key: bytes, value: bytes | None) -> bool:
    return isinstance(GroupRecordDecoder().decode(key, value), CoordinatorRecord)


def _short(value: bytes | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value


def _sized(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def _compact(value: bytes | None) -> bytes:
    return b"\0" if value is None else _uvarint(len(value) + 1) + value


def _uvarint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])
