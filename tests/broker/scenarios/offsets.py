"""Offsets that are deleted, reset, or grow too old."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.broker.brokers import until
from tests.broker.lab import Expected, Lab, at

RETENTION_MS = 60_000


def deletions(lab: Lab) -> Iterator[Expected]:
    """Offsets, groups and a topic are deleted; a deleted group comes back."""
    kept, other, doomed = lab.topic("deletions", 3), lab.topic("deletions.other", 1), lab.topic("deletions.doomed", 2)
    member = lab.join("deletes-active", ["deletions"])
    lab.await_assigned(3, member)
    member.commit(at(kept + other + doomed, 1))
    emptied = lab.join("deletes-emptied", ["deletions"])
    lab.await_assigned(3, emptied)
    emptied.commit(at(kept, 2))
    emptied.close()
    for group in ("deletes-some", "deletes-all", "deletes-group"):
        lab.alter(group, at(kept, 3))
    lab.alter("deletes-topic", at(kept + doomed, 4))
    yield Expected(
        lab.await_group("deletes-active", "classic", "Stable", 1)
        | dict.fromkeys(("deletes-some", "deletes-topic", "deletes-emptied"), ("classic", "Empty", 0)),
        committed={"deletes-active": at(kept + other + doomed, 1), "deletes-topic": at(kept + doomed, 4)},
    )
    lab.delete_offsets("deletes-active", other)
    lab.delete_offsets("deletes-some", kept[:2])
    for slot in kept:
        lab.delete_offsets("deletes-all", [slot])
    for group in ("deletes-group", "deletes-emptied"):
        lab.delete_group(group)
    lab.delete_topic("deletions.doomed")
    lab.await_committed("deletes-topic", kept)
    lab.await_committed("deletes-active", kept)
    yield Expected(
        gone=("deletes-group", "deletes-emptied"),
        committed={
            "deletes-active": at(kept, 1),
            "deletes-some": at(kept[2:], 3),
            "deletes-all": {},
            "deletes-topic": at(kept, 4),
        },
    )
    lab.alter("deletes-group", at(kept[:1], 5))
    yield Expected({"deletes-group": ("classic", "Empty", 0)}, committed={"deletes-group": at(kept[:1], 5)})


def resets(lab: Lab) -> Iterator[Expected]:
    """Offsets go back, forward and to the earliest by Admin; then a member reads on from there."""
    slots = lab.topic("resets", 3, records=20)
    group = "resets"
    reader = lab.join(group, ["resets"])
    lab.await_assigned(3, reader)
    reader.commit(at(slots, 15), "read")
    reader.close()
    yield Expected(lab.await_group(group, "classic", "Empty", 0), committed={group: at(slots, 15)})
    (first, second, third) = slots
    lab.alter(group, {first: 3}, "back", epoch=0)
    lab.alter(group, {second: 2**40 + 1}, "forward")
    lab.alter(group, {third: 0}, "to the earliest")
    moved = {first: 3, second: 2**40 + 1, third: 0}
    yield Expected({group: ("classic", "Empty", 0)}, committed={group: moved})
    back = lab.join(group, ["resets"])
    lab.await_assigned(3, back)
    lab.await_position(back, third, 20)
    back.commit({third: 20})
    yield Expected(lab.await_group(group, "classic", "Stable", 1), committed={group: moved | {third: 20}})


def expiry(lab: Lab) -> Iterator[Expected]:
    """Offsets of every kind of group grow older than a minute, and a broker that looks every second removes them."""
    slots, other = lab.topic("expiring", 3), lab.topic("expiring.other", 1)
    protocols = ["classic"] if lab.is_scala else ["classic", "consumer"]
    lab.alter("simple", at(slots, 1))
    for protocol in protocols:
        for group, leaves in ((f"left-{protocol}", True), (f"stays-{protocol}", False), (f"bare-{protocol}", True)):
            member = lab.join(group, ["expiring"], protocol)
            lab.await_assigned(3, member)
            if not group.startswith("bare"):
                member.commit(at(slots + other, 2))
            if leaves:
                member.close()
    lab.alter("pending", at(slots, 3))
    producer = lab.transactions("expiring")
    producer.begin()
    producer.send("pending", {slots[0]: 4})
    begun = time.monotonic()
    yield Expected(
        {f"stays-{protocol}": (protocol, "Stable", 1) for protocol in protocols}
        | {f"{name}-{protocol}": (protocol, "Empty", 0) for protocol in protocols for name in ("left", "bare")},
        unstable={"pending": {slots[0]}},
    )
    # More than a minute after the last commit, and after the last member left.
    time.sleep(max(0.0, begun + (RETENTION_MS + 2000) / 1000 - time.monotonic()))
    lab.brokers.broker.restart({"offsets.retention.check.interval.ms": "1000"})
    lab.await_coordinator()
    lab.alter("fresh", at(slots, 5))
    gone = ["simple", *(f"{name}-{protocol}" for protocol in protocols for name in ("left", "bare"))]
    until("groups are gone", lambda: not any(lab.described(group) for group in gone))
    yield Expected(
        {"fresh": ("classic", "Empty", 0)},
        gone=tuple(gone),
        committed={
            # Java spares the offset under a transaction, Scala does not (T51).
            "pending": {} if lab.is_scala else {slots[0]: 3},
            **{f"stays-{protocol}": at(slots, 2) for protocol in protocols},
            "fresh": at(slots, 5),
        },
        unstable={"pending": {slots[0]}},
    )
