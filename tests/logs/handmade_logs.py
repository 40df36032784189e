"""Logs written record by record: commits, snapshots of classic groups, records of consumer groups, in batches."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.logs.dense_logs import CONTROL, TRANSACTIONAL, text
from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
T0 = 1_790_000_000_000  # 2026-09-21
NONE = b"\xff\xff"


class Member(NamedTuple):
    member_id: str
    instance: str | None = None
    topics: tuple[str, ...] = ("t",)


class Log:
    """One offsets partition. Each batch is an act of a coordinator at a time, in ms after T0."""

    def __init__(self) -> None:
        self.data, self.offset = b"", 0

    def add(self, at: int, *records: KeyValue, producer: int = -1, attributes: int = TRANSACTIONAL) -> Log:
        of = {} if producer < 0 else {"attributes": attributes, "producer_id": producer, "producer_epoch": 0}
        self.data += batch(self.offset, records, base_timestamp=T0 + at, max_timestamp=T0 + at, **of)
        self.offset += len(records)
        return self

    def ends(self, at: int, producer: int, *, commits: bool) -> Log:
        """The marker of the producer's transaction."""
        marker = struct.pack(">hh", 0, int(commits)), struct.pack(">hi", 0, 0)
        return self.add(at, marker, producer=producer, attributes=TRANSACTIONAL | CONTROL)


def files_of(*logs: Log) -> Files:
    """The logs as partitions 0, 1, ..."""
    return {f"__consumer_offsets-{number}/{0:020}.log": log.data for number, log in enumerate(logs)}


def commit(at: int, offset: int | None, group: str = "g", topic: str = "t", partition: int = 0) -> KeyValue:
    """A value of version 3; None: a tombstone."""
    key = struct.pack(">h", 1) + text(group) + text(topic) + struct.pack(">i", partition)
    return key, None if offset is None else struct.pack(">hqih", 3, offset, -1, 0) + struct.pack(">q", T0 + at)


def commit_of_id(at: int, offset: int, topic_id: int) -> KeyValue:
    """A value of version 4 with a topic id."""
    key = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 0)
    value = struct.pack(">hqi", 4, offset, -1) + b"\1" + struct.pack(">q", T0 + at)
    return key, value + b"\1\0\x10" + struct.pack(">qq", 0, topic_id)


def classic(at: int, generation: int, *members: Member, group: str = "g", protocol_type: str = "consumer") -> KeyValue:
    """A snapshot of version 3."""
    head = struct.pack(">h", 3) + text(protocol_type) + struct.pack(">i", generation)
    head += text("range") + text(members[0].member_id) if members else NONE + NONE
    of_members = b"".join(map(_classic_member, members))
    return struct.pack(">h", 2) + text(group), head + struct.pack(">qi", T0 + at, len(members)) + of_members


def _classic_member(member: Member) -> bytes:
    subscription = (
        struct.pack(">hi", 0, len(member.topics)) + b"".join(map(text, member.topics)) + struct.pack(">i", -1)
    )
    assignment = struct.pack(">hi", 0, 0) + struct.pack(">i", -1)
    blobs = b"".join(struct.pack(">i", len(blob)) + blob for blob in (subscription, assignment))
    instance = NONE if member.instance is None else text(member.instance)
    return text(member.member_id) + instance + text("client") + text("/host") + struct.pack(">ii", 9000, 9000) + blobs


def gone(record_type: int = 2, group: str = "g", member: str | None = None) -> KeyValue:
    """The tombstone of a group or of a member's record."""
    return struct.pack(">h", record_type) + text(group) + (b"" if member is None else text(member)), None


def consumer(member: Member, group: str = "g") -> KeyValue:
    """A member of a consumer group (type 5)."""
    topics = bytes([len(member.topics) + 1]) + b"".join(map(_flexible, member.topics))
    body = (b"\0" if member.instance is None else _flexible(member.instance)) + b"\0" + _flexible("client")
    body += _flexible("/host") + topics + b"\1" + struct.pack(">i", 9000) + b"\0"
    return struct.pack(">h", 5) + text(group) + text(member.member_id), b"\0\0" + body + b"\0"


def epoch(number: int, group: str = "g") -> KeyValue:
    """The epoch of a consumer group (type 3)."""
    return struct.pack(">h", 3) + text(group), struct.pack(">hi", 0, number) + b"\0"


def at_epoch(member_id: str, number: int, group: str = "g") -> KeyValue:
    """The current assignment of a consumer group's member (type 8), without partitions; -2: it is away."""
    key = struct.pack(">h", 8) + text(group) + text(member_id)
    return key, struct.pack(">hiib", 0, number, number, 0) + b"\1\1\0"


def removed(member_id: str) -> Sequence[KeyValue]:
    """The tombstones of a consumer group's member."""
    return [gone(kind, member=member_id) for kind in (8, 7, 5)]


def _flexible(name: str) -> bytes:
    return bytes([len(name) + 1]) + name.encode()
