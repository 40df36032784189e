"""Random logs of few groups, topics and producers, so that all kinds of records interact. As bytes of segments."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

TRANSACTIONAL, CONTROL = 0x10, 0x20
GROUPS, PRODUCERS = ("a", "b"), (1, 2)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def offset_commit(rng: random.Random, *, tombstone: bool = False) -> KeyValue:
    """A record of type 0 or 1; values of any version."""
    record_type = int(rng.random() < 0.8)
    key = struct.pack(">h", record_type) + text(rng.choice(GROUPS)) + text("t") + struct.pack(">i", rng.randrange(2))
    version = rng.choice([0, 1, 2, 3, 3, 3, 4])
    head = struct.pack(">hq", version, rng.randrange(100)) + (b"\0\0\0\7" if version >= 3 else b"")
    tail = struct.pack(">q", 1000) + (struct.pack(">q", -1) if version == 1 else b"") + (b"\0" if version == 4 else b"")
    return key, None if tombstone else head + (b"\1" if version == 4 else b"\0\0") + tail


def group_record(rng: random.Random) -> KeyValue:
    """GroupMetadata of an Empty group, an epoch of a consumer group, or a tombstone of either."""
    record_type = rng.choice([2, 2, 3, 6])
    key = struct.pack(">h", record_type) + text(rng.choice(GROUPS))
    value = struct.pack(">hi", 0, rng.randrange(5)) + b"\0"
    if record_type == 2:
        value = struct.pack(">h", 3) + text("consumer") + struct.pack(">ihhqi", 1, -1, -1, rng.randrange(9), 0)
    return key, value if rng.random() < 0.5 else None


def undecodable(rng: random.Random) -> KeyValue:
    """A record of an unknown type, or a truncated one."""
    return rng.choice([b"\0\x63\0\1a", b"\0\1\0", b"\0\3\0\1a"]), rng.choice([b"\0\0\0", b""])


def plain(make: Callable[..., KeyValue], **fields: bool) -> Callable[..., bytes]:
    return lambda rng, offset: batch(offset, [make(rng, **fields) for _ in range(rng.choice([1, 1, 3]))])


def produced(make: Callable[..., KeyValue], attributes: int = TRANSACTIONAL, **fields: bool) -> Callable[..., bytes]:
    return lambda rng, offset: batch(
        offset,
        [make(rng, **fields) for _ in range(rng.choice([1, 1, 3]))],
        attributes=attributes,
        producer_id=rng.choice(PRODUCERS),
        producer_epoch=0,
    )


def marker(control_type: int) -> Callable[..., bytes]:
    return lambda rng, offset: batch(
        offset,
        [(struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 4))],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=rng.choice(PRODUCERS),
        producer_epoch=0,
    )


# The kinds of batches in a log, and their frequencies.
KINDS: dict[Callable[..., bytes], int] = {
    plain(offset_commit): 6,
    plain(offset_commit, tombstone=True): 2,
    plain(group_record): 2,
    plain(undecodable): 1,
    produced(offset_commit): 8,
    produced(offset_commit, tombstone=True): 1,
    produced(group_record): 1,
    produced(undecodable): 1,
    produced(offset_commit, attributes=0): 1,
    marker(1): 5,
    marker(0): 3,
    marker(5): 1,
}


def dense_log(seed: int, batches: int = 30) -> Files:
    """One offsets partition; some offsets and some times are missing."""
    rng, offset, data = random.Random(seed), 0, b""
    for kind in rng.choices(list(KINDS), list(KINDS.values()), k=batches):
        data += kind(rng, offset)
        offset += rng.choice([3, 3, 7])
    return {"__consumer_offsets-0/00000000000000000000.log": data}
