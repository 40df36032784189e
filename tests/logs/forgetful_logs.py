"""Random logs in which many groups, members, offsets and transactions begin, and all of them end; and nights in which
the cleaner removes the tombstones and markers before an audit has read them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.logs.cleaner import GrowingLog
from tests.logs.dense_logs import CONTROL, TRANSACTIONAL, text
from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

STEPS = 40
GROUPS, CONSUMER_GROUPS, MEMBERS = ("a", "b", "c"), ("m", "n"), ("x", "y")
# ConsumerGroupMemberMetadataValue: client c on host h, subscribed to t. The others: epochs, nothing assigned.
MEMBER = struct.pack(">h", 0) + b"\0\0\2c\2h\2\2t\0" + struct.pack(">i", 300_000) + b"\0\0"


def key(record_type: int, *names: str) -> bytes:
    return struct.pack(">h", record_type) + b"".join(map(text, names))


def commits(rng: random.Random) -> list[KeyValue]:
    value = struct.pack(">hqi", 3, rng.randrange(100), 7) + b"\0\0" + struct.pack(">q", 1000)
    return [(_slot(rng), value) for _ in range(rng.choice([1, 1, 3]))]


def offset_tombstones(rng: random.Random) -> list[KeyValue]:
    return [(_slot(rng), None)]


def _slot(rng: random.Random) -> bytes:
    return key(1, rng.choice(GROUPS), "t") + struct.pack(">i", rng.randrange(2))


def classic_group(rng: random.Random) -> list[KeyValue]:
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">ihhqi", rng.randrange(4), -1, -1, 9, 0)
    return [(key(2, rng.choice(GROUPS)), value)]


def classic_group_removed(rng: random.Random) -> list[KeyValue]:
    return [(key(2, rng.choice(GROUPS)), None)]


def member_joined(rng: random.Random) -> list[KeyValue]:
    return joined(rng.choice(CONSUMER_GROUPS), rng.choice(MEMBERS), rng.randrange(1, 4))


def joined(group: str, member: str, epoch: int) -> list[KeyValue]:
    return [
        (key(5, group, member), MEMBER),
        (key(3, group), struct.pack(">hi", 0, epoch) + b"\0"),
        (key(7, group, member), struct.pack(">h", 0) + b"\1\0"),
        (key(6, group), struct.pack(">hi", 0, epoch) + b"\0"),
        (key(8, group, member), struct.pack(">hiib", 0, epoch, epoch - 1, 0) + b"\1\1\0"),
    ]


def member_left(rng: random.Random) -> list[KeyValue]:
    return gone(rng.choice(CONSUMER_GROUPS), rng.choice(MEMBERS))


def gone(group: str, member: str) -> list[KeyValue]:
    return [(key(record_type, group, member), None) for record_type in (8, 7, 5)]


def consumer_group_removed(rng: random.Random) -> list[KeyValue]:
    group = rng.choice(CONSUMER_GROUPS)
    return [(key(record_type, group), None) for record_type in (6, 3)]


KINDS: dict[Callable[[random.Random], list[KeyValue]], int] = {
    commits: 6,
    offset_tombstones: 4,
    classic_group: 3,
    classic_group_removed: 3,
    member_joined: 4,
    member_left: 4,
    consumer_group_removed: 1,
}


def forgetful_log(seed: int, partition: int = 0) -> Files:
    """One offsets partition; a third of the commits are transactions of one producer each, which end soon."""
    rng = random.Random(seed)
    data, offset, ends_at = b"", 0, dict[int, int]()  # by producer the step at which its transaction ends
    for step in range(STEPS + 4):
        for producer in [p for p, end in ends_at.items() if end == step]:
            record = struct.pack(">hh", 0, int(rng.random() < 0.6)), struct.pack(">hi", 0, 4)
            data += _batch(offset, [record], TRANSACTIONAL | CONTROL, producer)
            offset += 1
        if step >= STEPS:
            continue
        (make,) = rng.choices(list(KINDS), list(KINDS.values()))
        records = make(rng)
        if make is commits and rng.random() < 0.3:
            ends_at[step] = step + rng.randrange(1, 4)
            data += _batch(offset, records, TRANSACTIONAL, step)
        else:
            data += _batch(offset, records)
        offset += len(records)
    return {f"__consumer_offsets-{partition}/00000000000000000000.log": data}


def _batch(offset: int, records: list[KeyValue], attributes: int = 0, producer_id: int = -1) -> bytes:
    """At a time of its own: the cleaner may remove a batch and leave another one of the same bytes, and the next night
    would take the log for another one."""
    epoch = 0 if producer_id >= 0 else -1
    times = {"base_timestamp": 1000 + offset, "max_timestamp": 2000 + offset}
    return batch(offset, records, attributes=attributes, producer_id=producer_id, producer_epoch=epoch, **times)


def forgetful_night(log: GrowingLog, nights_left: int, rounds: int = 3) -> None:
    """Writes to the log until the next audit. The cleaner runs so late that only the last round's segment still has
    tombstones."""
    for number in range(rounds):
        log.clean(drop_tombstones=True)
        for partition in log.partitions:
            log.append(partition, -(-log.left(partition) // (nights_left * rounds - number)))
            if number < rounds - 1:
                log.roll(partition)
