"""Generated histories of share partitions, and their records as bytes."""

from __future__ import annotations

import random
from typing import NamedTuple

from kgroups_spark.messages.coordinator_records import SHARE_GROUP_STATE
from tests.findings.record_bytes import message

KEYS = [("g", "AAAAAAAAAAAAAAAAAAAAAQ", 0), ("g", "AAAAAAAAAAAAAAAAAAAAAQ", 1), ("café", "_____________________w", 7)]


class Record(NamedTuple):
    """A record of `__share_group_state`. `value` None: tombstone; batches: (first, last, state, count)."""

    record_type: int
    group_id: str
    topic_id: str
    partition: int
    value: dict | None


def key_bytes(record):
    key = {"groupId": record.group_id, "topicId": record.topic_id, "partition": record.partition}
    return record.record_type.to_bytes(2, "big") + message(SHARE_GROUP_STATE[record.record_type].key, key, 0)


def value_bytes(record, *, early=False):
    """Kafka's bytes of version 0. `early`: the layout of 4.0."""
    layout = SHARE_GROUP_STATE[record.record_type].layouts[early]
    if record.value is None:
        return None
    names = {field.name for field in layout.fields}
    return b"\0\0" + message(layout, {name: each for name, each in record.value.items() if name in names}, 0)


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
    return [_record(generator, generator.choice(KEYS), reach, stretch, tidy) for _ in range(length)]


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
