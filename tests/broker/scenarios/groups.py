"""Members of groups: they join, leave, are away, go without a word, subscribe and change their protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.broker.lab import NEVER_MS, SHORT_MS, Expected, Lab, Scenario, at


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
