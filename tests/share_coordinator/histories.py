"""Generated histories of share partitions, and their records as bytes by an encoder of its own."""

from __future__ import annotations

import base64
import random
from typing import NamedTuple

from tests.findings.record_bytes import uvarint

KEYS = [("g", "AAAAAAAAAAAAAAAAAAAAAQ", 0), ("g", "AAAAAAAAAAAAAAAAAAAAAQ", 1), ("café", "_____________________w", 7)]


class Record(NamedTuple):
    """A record of `__share_group_state`. `value` None: tombstone; batches: (first, last, state, count)."""

    record_type: int
    group_id: str
    topic_id: str
    partition: int
    value: dict | None


def integers(*pairs):
    return b"".join(number.to_bytes(width, "big", signed=True) for width, number in pairs)


def key_bytes(record):
    group = record.group_id.encode()
    topic_id = base64.urlsafe_b64decode(record.topic_id + "==")
    return integers((2, record.record_type), (2, len(group))) + group + topic_id + record.partition.to_bytes(4, "big")


def value_bytes(record, *, early=False):
    """Kafka's bytes of version 0: a delivery complete count of -1 is left out. `early`: the layout of 4.0."""
    value = record.value
    if value is None:
        return None
    out = integers((2, 0), (2 if early else 4, value["snapshotEpoch"]))
    if record.record_type == 0:
        out += integers((4, value["stateEpoch"]))
    out += integers((4, value["leaderEpoch"]), (8, value["startOffset"]))
    if record.record_type == 0 and not early:
        out += integers((8, value["createTimestamp"]), (8, value["writeTimestamp"]))
    out += uvarint(len(value["stateBatches"]) + 1)
    for batch in value["stateBatches"]:
        out += integers((8, batch["firstOffset"]), (8, batch["lastOffset"]), (1, batch["deliveryState"]))
        out += integers((2, batch["deliveryCount"])) + b"\0"
    count = value["deliveryCompleteCount"]
    return out + (b"\0" if count == -1 or early else b"\1\0\4" + integers((4, count)))


def batch(first, last, state=0, count=1):
    return {"firstOffset": first, "lastOffset": last, "deliveryState": state, "deliveryCount": count}


def snapshot(batches=(), start=0, *, epoch=0, state_epoch=0, leader_epoch=0, complete=-1, times=(1, 1)):
    return {
        "snapshotEpoch": epoch,
        "stateEpoch": state_epoch,
        "leaderEpoch": leader_epoch,
        "startOffset": start,
        "deliveryCompleteCount": complete,
        "createTimestamp": times[0],
        "writeTimestamp": times[1],
        "stateBatches": list(batches),
    }


def update(batches=(), start=-1, *, epoch=0, leader_epoch=-1, complete=-1):
    return {
        "snapshotEpoch": epoch,
        "leaderEpoch": leader_epoch,
        "startOffset": start,
        "deliveryCompleteCount": complete,
        "stateBatches": list(batches),
    }


def history(seed, *, length=30, reach=40, stretch=1, tidy=False):
    """Records of three share partitions. Offsets are below `reach`, each multiplied by `stretch`.

    `tidy`: snapshots have batches as a coordinator writes them, in order and apart.
    """
    generator = random.Random(seed)
    keys = [
        ("g", "AAAAAAAAAAAAAAAAAAAAAQ", 0),
        ("g", "AAAAAAAAAAAAAAAAAAAAAQ", 1),
        ("café", "_____________________w", 7),
    ]
    return [_record(generator, generator.choice(keys), reach, stretch, tidy) for _ in range(length)]


def _record(generator, key, reach, stretch, tidy):
    kind = generator.choices(["snapshot", "update", "tombstone", "odd tombstone"], [4, 20, 1, 0.3])[0]
    if "tombstone" in kind:
        return Record(1 if "odd" in kind else 0, *key, None)
    start = generator.choice([-1, -1, generator.randrange(reach) * stretch])
    batches = _batches(generator, reach, stretch, tidy=tidy and kind == "snapshot")
    leader_epoch, complete = generator.randrange(-1, 4), generator.randrange(-1, 9)
    if kind == "update":
        return Record(1, *key, update(batches, start, leader_epoch=leader_epoch, complete=complete))
    epochs = {"epoch": generator.randrange(3), "state_epoch": generator.randrange(5), "leader_epoch": leader_epoch}
    return Record(0, *key, snapshot(batches, start, **epochs, complete=complete, times=(generator.randrange(9), 7)))


def _batches(generator, reach, stretch, tidy):
    found, at = [], 0
    for _ in range(generator.choice([0, 1, 1, 2, 3, 8])):
        first = at + generator.randrange(3) if tidy else generator.randrange(reach)
        last = first + generator.choice([0, 0, 1, 3, 10])
        state, count = generator.choice([0, 0, 2, 4]), generator.randrange(1, 4)
        found.append(batch(first * stretch, last * stretch + stretch - 1, state, count))
        at = last + 2
    return found
