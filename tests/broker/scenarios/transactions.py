"""Offsets in transactions, and what is deleted under them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.broker.lab import Expected, Lab, Reloaded, at
from tests.broker.members import LONG_MS


def transactions(lab: Lab) -> Iterator[Expected]:
    """Offsets in transactions that commit, abort, time out, are fenced or stay open, and plain commits between them."""
    slots = lab.topic("transactions", 4)
    one = lab.transactions("transactions-1")
    one.begin()
    one.send("committed", at(slots, 10), "first")
    one.commit()
    one.begin()
    one.send("committed", {slots[0]: 11})
    one.send("committed", {slots[0]: 12}, "twice in one transaction")
    one.commit()
    lab.alter("aborted", at(slots[:2], 20))
    one.begin()
    one.send("aborted", at(slots, 30))
    one.abort()
    one.begin()
    one.send("only-aborted", at(slots, 40))
    one.abort()
    open_, late = lab.transactions("transactions-2"), lab.transactions("transactions-3")
    open_.begin()
    open_.send("only-open", at(slots[:2], 50), "open")
    lab.alter("open", at(slots, 60))
    open_.send("open", at(slots[1:3], 70))
    late.begin()
    late.send("open", at(slots[2:3], 80))
    lab.alter("open", {slots[1]: 90}, "plain, behind what is open")
    plain = at(slots, 60) | {slots[1]: 90}
    member = lab.join("with-member", ["transactions"])
    lab.await_assigned(4, member)
    one.begin()
    one.send(member, at(slots[:1], 5))
    one.commit()
    one.begin()
    one.send(member, at(slots[1:2], 6))
    lab.await_group("with-member", "classic", "Stable", 1)
    yield Expected(
        {"with-member": ("classic", "Stable", 1), "only-open": ("classic", "Empty", 0)},
        committed={
            "committed": at(slots, 10) | {slots[0]: 12},
            "aborted": at(slots[:2], 20),
            "only-aborted": {},
            "only-open": {},
            "open": plain,
            "with-member": at(slots[:1], 5),
        },
        unstable={
            "committed": set(),
            "aborted": set(),
            "only-open": set(slots[:2]),
            "open": set(slots[1:3]),
            "with-member": {slots[1]},
        },
        # Until the next sweep over empty groups, which the next night's deletion of a topic is, too.
        reloaded=(Reloaded("its only transaction was aborted (T29)", "only-aborted", exists=False),),
    )
    open_.commit()
    heir = lab.transactions("transactions-3")  # fences `late`, whose transaction is aborted
    heir.begin()
    heir.send("open", {slots[3]: 100})
    heir.commit()
    late_too = lab.transactions("transactions-4", timeout_ms=1000)
    late_too.begin()
    late_too.send("timed-out", at(slots, 110))
    lab.alter("timed-out", {slots[0]: 1})
    lab.await_transaction("transactions-4", "CompleteAbort")
    lab.await_transaction("transactions-2", "CompleteCommit")
    yield Expected(
        committed={
            "only-open": at(slots[:2], 50),
            "open": plain | at(slots[2:3], 70) | {slots[3]: 100},
            "timed-out": {slots[0]: 1},
        },
        unstable={"only-open": set(), "open": set(), "timed-out": set(), "with-member": {slots[1]}},
    )
    one.commit()
    lab.await_transaction("transactions-1", "CompleteCommit")
    yield Expected(committed={"with-member": at(slots[:1], 5) | at(slots[1:2], 6)}, unstable={"with-member": set()})


def java_transactions(lab: Lab) -> Iterator[Expected]:
    """Transactions of the Java client, whose epoch goes up with each where the broker knows how."""
    slots = lab.topic("transactions.java", 2)
    producer = lab.clients.transactions("java", LONG_MS)
    group = lab.clients.kafka.clients.consumer.ConsumerGroupMetadata("java-transactions")
    for offset in (1, 2, 3):
        producer.beginTransaction()
        producer.sendOffsetsToTransaction(lab.clients.offsets(at(slots, offset), "by Java", 0), group)
        if offset == 1:
            producer.commitTransaction()
        elif offset == 2:
            producer.abortTransaction()
    yield Expected(committed={"java-transactions": at(slots, 1)}, unstable={"java-transactions": set(slots)})
    producer.commitTransaction()
    lab.await_transaction("java", "CompleteCommit")
    producer.close()
    yield Expected(committed={"java-transactions": at(slots, 3)}, unstable={"java-transactions": set()})


def tombstones_while_pending(lab: Lab) -> Iterator[Expected]:
    """Offsets and groups are deleted under a transaction, which then commits or aborts, or is still open."""
    slots = lab.topic("tombstones", 4)
    first, second, third = slots[:3]
    commits, aborts = lab.transactions("tombstones-1"), lab.transactions("tombstones-2")
    stays = lab.transactions("tombstones-3")
    for producer, end in ((commits, "committed"), (aborts, "aborted"), (stays, "open")):
        producer.begin()
        for group in (f"offset-deleted-{end}", f"group-deleted-{end}"):
            lab.alter(group, at(slots[:2], 10))
            producer.send(group, at(slots[:3], 20))
        lab.delete_offsets(f"offset-deleted-{end}", [first])
        lab.delete_group(f"group-deleted-{end}")
        producer.send(f"group-deleted-{end}", {slots[3]: 30})
    ends = ("committed", "aborted", "open")
    pending = {
        # Java drops what is pending of a partition whose offset is deleted, by its tombstone (T21).
        **{f"offset-deleted-{end}": {second, third} for end in ends},
        **{f"group-deleted-{end}": {slots[3]} for end in ends},
    }
    plain = {f"offset-deleted-{end}": at([second], 10) for end in ends}
    yield Expected(
        committed=plain | {f"group-deleted-{end}": {} for end in ends},
        unstable=pending,
        reloaded=(
            *(
                Reloaded(
                    "an offset was deleted under a transaction that is open",
                    f"offset-deleted-{end}",
                    committed=plain[f"offset-deleted-{end}"],
                    unstable=frozenset(slots[:3]),
                )
                for end in ends
            ),
            *(
                Reloaded(
                    "a group was deleted under a transaction that is open",
                    f"group-deleted-{end}",
                    unstable=frozenset(slots),
                )
                for end in ends
            ),
        ),
    )
    commits.commit()
    aborts.abort()
    lab.await_transaction("tombstones-1", "CompleteCommit")
    lab.await_transaction("tombstones-2", "CompleteAbort")
    yield Expected(
        committed={
            "offset-deleted-committed": at([second, third], 20),
            "offset-deleted-aborted": at([second], 10),
            "offset-deleted-open": at([second], 10),
            "group-deleted-committed": {slots[3]: 30},
            "group-deleted-aborted": {},
        },
        unstable={
            "offset-deleted-committed": set(),
            "offset-deleted-aborted": set(),
            "offset-deleted-open": {second, third},
        },
        reloaded=(
            Reloaded(
                "an offset was deleted under a transaction, which then committed (T21)",
                "offset-deleted-committed",
                committed=at(slots[:3], 20),
            ),
            Reloaded(
                "a group was deleted under a transaction, which then committed",
                "group-deleted-committed",
                committed=at(slots[:3], 20) | {slots[3]: 30},
            ),
            Reloaded(
                "a group was deleted under a transaction, which then aborted", "group-deleted-aborted", exists=False
            ),
            Reloaded(
                "an offset was deleted under a transaction that is open",
                "offset-deleted-open",
                committed=at([second], 10),
                unstable=frozenset(slots[:3]),
            ),
            Reloaded(
                "a group was deleted under a transaction that is open", "group-deleted-open", unstable=frozenset(slots)
            ),
        ),
    )
