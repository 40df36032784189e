"""Real clients work with a coordinator, in steps. After each step the broker is asked and its log is audited.

A scenario is a generator. The code before a `yield` runs before that night's audit; the broker must then report what is
yielded. Scenarios of one night run at the same time; each has groups and topics of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from tests.broker.brokers import until
from tests.broker.lab import NEVER_MS, SHORT_MS, Expected, Lab, Scenario, at
from tests.broker.members import LONG_MS


def share_groups(lab: Lab) -> Iterator[Expected]:
    """Share groups are joined, read by, left, given start offsets by Admin, and deleted."""
    slots = lab.topic("shared", 2, records=10)
    for group in ("share", "share-left"):
        lab.group_setting(group, "share.auto.offset.reset", "earliest")
    first, second, gone = (
        lab.share("share", ["shared"]),
        lab.share("share", ["shared"]),
        lab.share("share-left", ["shared"]),
    )
    until("all is read", lambda: first.read + second.read >= 20 and gone.read >= 20)
    gone.close()
    lab.alter_share("share-altered", {slots[0]: 3, slots[1]: 4})
    yield Expected(
        lab.await_group("share", "share", "Stable", 2)
        | lab.await_group("share-left", "share", "Empty", 0)
        | lab.await_group("share-altered", "share", "Empty", 0)
    )
    second.close()
    lab.alter_share("share-left", {slots[1]: 1})
    lab.admin.deleteShareGroupOffsets("share-altered", {"shared"}).all().get()
    yield Expected(lab.await_group("share", "share", "Stable", 1) | lab.await_group("share-left", "share", "Empty", 0))
    lab.admin.deleteShareGroups(["share-left"]).all().get()
    yield Expected({"share": ("share", "Stable", 1)}, gone=("share-left",))


def streams_application(protocol: str) -> Scenario:
    """An application of Kafka Streams with a repartition topic runs, stops, and its group is deleted."""

    def play(lab: Lab) -> Iterator[Expected]:
        group, topic = f"streams-{protocol}", f"streams.{protocol}"
        slots = lab.topic(topic, 2, records=10)
        application = lab.clients.streams(group, topic, protocol, lab.brokers.folder / group)
        internal = [(f"{group}-by-key-repartition", number) for number in range(2)]
        lab.slots.update(internal)
        lab.await_committed(group, slots + internal)
        yield Expected(lab.await_group(group, protocol, "Stable", 1))
        lab.clients.stop(application)
        yield Expected(lab.await_group(group, protocol, "Empty", 0))
        if protocol == "streams":
            lab.admin.deleteStreamsGroups([group]).all().get()
        else:
            lab.delete_group(group)
        yield Expected(gone=(group,))

    return play


# Members of groups: they join, leave, are away, go without a word, subscribe and change their protocol.
def joins_and_leaves(protocol: str) -> Scenario:
    """Members come and go; groups that are left, with offsets and without."""

    def play(lab: Lab) -> Iterator[Expected]:
        slots = lab.topic(f"joins.{protocol}", 4)
        topics, group = [slots[0][0]], f"joins-{protocol}"
        left, bare = f"left-{protocol}", f"bare-{protocol}"
        first = lab.join(group, topics, protocol)
        gone = lab.join(left, topics, protocol)
        idle = lab.join(bare, topics, protocol)
        lab.await_assigned(4, gone)
        gone.commit(at(slots, 100), "who leaves")
        gone.close()
        lab.await_assigned(4, idle)
        idle.close()
        lab.await_assigned(4, first)
        first.commit(at(slots, 10), "first")
        second = lab.join(group, topics, protocol, client_id="the-second", client_rack="rack-2")
        lab.await_assigned(4, first, second)
        second.commit(at(second.assignment(), 20), "second")
        mine = at(second.assignment(), 20)
        yield Expected(
            lab.await_group(group, protocol, "Stable", 2)
            | lab.await_group(left, protocol, "Empty", 0)
            | lab.await_group(bare, protocol, "Empty", 0),
            committed={group: at(slots, 10) | mine, left: at(slots, 100), bare: {}},
        )
        third = lab.join(group, topics, protocol)
        lab.await_assigned(4, first, second, third)
        first.close()
        lab.await_assigned(4, second, third)
        third.commit(at(third.assignment(), 30))
        back = lab.join(left, topics, protocol)
        lab.await_assigned(4, back)
        yield Expected(
            lab.await_group(group, protocol, "Stable", 2) | lab.await_group(left, protocol, "Stable", 1),
            committed={group: at(slots, 10) | mine | at(third.assignment(), 30), left: at(slots, 100)},
        )
        for member in (second, third):
            member.close()
        yield Expected(lab.await_group(group, protocol, "Empty", 0))

    return play


def static_members(lab: Lab) -> Iterator[Expected]:
    """Classic members with a name: away, back under another member id, removed by Admin."""
    slots = lab.topic("static.classic", 6)
    topics, group = ["static.classic"], "static-classic"
    one, two, three = (
        lab.join(group, topics, group_instance_id=name, session_timeout_ms=NEVER_MS) for name in ("one", "two", "three")
    )
    lab.await_assigned(6, one, two, three)
    one.commit(at(slots, 7))
    two.close()
    yield Expected(lab.await_group(group, "classic", "Stable", 3), committed={group: at(slots, 7)})
    back = lab.join(group, topics, group_instance_id="two", session_timeout_ms=NEVER_MS)
    lab.await_assigned(6, one, back, three)
    three.close()
    admin = lab.clients.kafka.clients.admin
    removed = admin.RemoveMembersFromConsumerGroupOptions([admin.MemberToRemove("three")])
    lab.admin.removeMembersFromConsumerGroup(group, removed).all().get()
    lab.await_assigned(6, one, back)
    yield Expected(lab.await_group(group, "classic", "Stable", 2))


def static_consumers(lab: Lab) -> Iterator[Expected]:
    """The same of KIP-848: a member that is away keeps epoch -2; one does not come back in time."""
    slots = lab.topic("static.consumer", 6)
    topics, group, lost = ["static.consumer"], "static-consumer", "static-lost"
    lab.group_setting(group, "consumer.session.timeout.ms", NEVER_MS)
    one, two = (lab.join(group, topics, "consumer", group_instance_id=name) for name in ("one", "two"))
    lab.await_assigned(6, one, two)
    one.commit(at(slots, 7))
    two.close()
    yield Expected(lab.await_group(group, "consumer", "Reconciling", 2), committed={group: at(slots, 7)})
    back = lab.join(group, topics, "consumer", group_instance_id="two")
    lab.group_setting(lost, "consumer.session.timeout.ms", SHORT_MS)
    stays, goes = (lab.join(lost, topics, "consumer", group_instance_id=name) for name in ("stays", "goes"))
    lab.await_assigned(6, stays, goes)
    goes.close()
    lab.await_assigned(6, one, back)
    lab.await_assigned(6, stays)
    lab.group_setting(lost, "consumer.session.timeout.ms", NEVER_MS)
    yield Expected(lab.await_group(group, "consumer", "Stable", 2) | lab.await_group(lost, "consumer", "Stable", 1))


def regular_expressions(lab: Lab) -> Iterator[Expected]:
    """KIP-848 members that subscribe by regular expressions, one of which goes with its member. A coordinator resolves
    those of a group every ten seconds at most."""
    apples, pears = lab.topic("fruit.apples", 2), lab.topic("fruit.pears", 3)
    lab.topic("vegetables", 1)
    group = "regex"
    fruit = lab.join(group, ["^fruit[.].*"], "consumer")
    lab.await_assigned(5, fruit)
    fruit.commit(at(apples + pears, 50))
    both = lab.join(group, ["^vege.*", "fruit.apples"], "consumer")
    lab.await_assigned(6, fruit, both)
    yield Expected(lab.await_group(group, "consumer", "Stable", 2), committed={group: at(apples + pears, 50)})
    nothing = lab.join(group, ["^nothing-is-called-so"], "consumer")
    lab.await_group(group, "consumer", "Stable", 3)
    both.close()
    lab.await_assigned(5, fruit)
    yield Expected(lab.await_group(group, "consumer", "Stable", 2))
    nothing.close()
    yield Expected(lab.await_group(group, "consumer", "Stable", 1))


def upgrade_and_downgrade(lab: Lab) -> Iterator[Expected]:
    """A classic group becomes one of KIP-848 member by member, and goes back."""
    slots = lab.topic("upgrade", 4)
    topics, group = ["upgrade"], "upgrade"
    old = [lab.join(group, topics) for _ in range(2)]
    lab.await_assigned(4, *old)
    old[0].commit(at(slots, 1))
    new = lab.join(group, topics, "consumer")
    lab.await_assigned(4, *old, new)
    yield Expected(lab.await_group(group, "consumer", "Stable", 3), committed={group: at(slots, 1)})
    for member in old:
        member.close()
    lab.await_assigned(4, new)
    new.commit(at(slots, 2))
    yield Expected(lab.await_group(group, "consumer", "Stable", 1), committed={group: at(slots, 2)})
    again = lab.join(group, topics)
    lab.await_assigned(4, new, again)
    new.close()
    lab.await_assigned(4, again)
    again.commit(at(slots[:1], 3))
    yield Expected(lab.await_group(group, "classic", "Stable", 1), committed={group: at(slots, 2) | at(slots[:1], 3)})


def session_timeouts(protocol: str) -> Scenario:
    """Members that go without a word: one of two, and the only one."""

    def play(lab: Lab) -> Iterator[Expected]:
        slots = lab.topic(f"timeouts.{protocol}", 4)
        topics, group, alone = [slots[0][0]], f"timeout-{protocol}", f"timeout-alone-{protocol}"
        settings: Mapping[str, object] = {"session_timeout_ms": SHORT_MS, "heartbeat_interval_ms": 300}
        if protocol == "consumer":
            settings = {}
            for name in (group, alone):
                lab.group_setting(name, "consumer.session.timeout.ms", SHORT_MS)
        alone_is_gone = lab.vanishing_member(alone, topics, protocol, **settings)
        stays = lab.join(group, topics, protocol)
        lab.await_assigned(4, stays)
        stays.commit(at(slots, 1))
        lab.vanishing_member(group, topics, protocol, **settings)()
        lab.await_assigned(4, stays)
        alone_is_gone()
        if protocol == "consumer":
            lab.group_setting(group, "consumer.session.timeout.ms", NEVER_MS)
        yield Expected(
            lab.await_group(group, protocol, "Stable", 1) | lab.await_group(alone, protocol, "Empty", 0),
            committed={group: at(slots, 1)},
        )

    return play


# Offsets that are deleted, reset, or grow too old.
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


# Offsets in transactions, and what is deleted under them.
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
        reloaded={"only-aborted": None},  # its only transaction was aborted (T29)
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
        reloaded={
            **{f"offset-deleted-{end}": (plain[f"offset-deleted-{end}"], set(slots[:3])) for end in ends},
            **{f"group-deleted-{end}": ({}, set(slots)) for end in ends},
        },
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
        reloaded={
            "offset-deleted-committed": (at(slots[:3], 20), set()),  # T21
            "group-deleted-committed": (at(slots[:3], 20) | {slots[3]: 30}, set()),
            "group-deleted-aborted": None,
            "offset-deleted-open": (at([second], 10), set(slots[:3])),
            "group-deleted-open": ({}, set(slots)),
        },
    )


EXPIRING: dict[str, Scenario] = {"expiry": expiry}
BOTH: dict[str, Scenario] = {
    "joins and leaves": joins_and_leaves("classic"),
    "static members": static_members,
    "deletions": deletions,
    "resets": resets,
    "transactions": transactions,
    "transactions of the Java client": java_transactions,
    "tombstones while pending": tombstones_while_pending,
    "Streams": streams_application("classic"),
    "session timeouts": session_timeouts("classic"),
}
JAVA_COORDINATOR: dict[str, Scenario] = {
    **BOTH,
    "joins and leaves, KIP-848": joins_and_leaves("consumer"),
    "static members, KIP-848": static_consumers,
    "regular expressions": regular_expressions,
    "upgrade and downgrade": upgrade_and_downgrade,
    "session timeouts, KIP-848": session_timeouts("consumer"),
    "share groups": share_groups,
    "Streams, KIP-1071": streams_application("streams"),
}
