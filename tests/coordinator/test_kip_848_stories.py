"""Stories of KIP-848's protocol, step by step: who owns what, who waits for whom, and in which epoch.

The records are those that a coordinator writes at each step (types 3, 5, 6, 7, 8); topic `t` has the id X. The
situations are those that the KIP describes, numbers and names are ours. tests/broker/heartbeats.py plays them on
brokers of 4.3.1 and 4.4.0:

1. members join one after the other: nobody gets a partition before its owner has given it up
2. a member leaves: the others get what it had
3. a member does not give up in time and is fenced
4. a static member goes away and comes back under another member id
5. the topic gets partitions: only the new ones move

After every step three things hold, which the KIP promises of a group: a partition has one owner, no member is ahead of
the target assignment, and the target assigns each partition once.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from tests.coordinator.records import Log, X, consumer_member, current, epoch, target, target_epoch

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
AWAY = -2  # the member epoch of a static member that has gone and may come back


class Story:
    """The group `g`, and the records of each step. Epochs count from its first: a new group is at 0, since 4.3 at 1."""

    def __init__(self, version):
        self.log = Log(version)
        self.new = 1 if version >= "4.3" else 0

    def joins(self, member, group_epoch, **fields):
        """Types 5 and 3: the member, and the next group epoch."""
        self.log.record(5, consumer_member(**fields), member).record(3, epoch(self.new + group_epoch))
        return self

    def bumps(self, group_epoch):
        self.log.record(3, epoch(self.new + group_epoch))
        return self

    def assigns(self, assignment_epoch, **targets):
        """Types 7 and 6: the target assignment of those members that get another, and its epoch."""
        for member, partitions in targets.items():
            self.log.record(7, target(*partitions), member)
        self.log.record(6, target_epoch(self.new + assignment_epoch))
        return self

    def has(self, member, member_epoch, partitions, state=STABLE, pending=()):
        """Type 8: what the member has now. `pending`: what it has still to give up."""
        revoking = [{"topicId": X, "partitions": list(pending), "assignmentEpochs": None}] if pending else []
        member_epoch = member_epoch if member_epoch == AWAY else self.new + member_epoch
        value = current(member_epoch, *partitions, state=state, partitionsPendingRevocation=revoking)
        self.log.record(8, value, member)
        return self

    def leaves(self, member, group_epoch):
        """Tombstones of types 8, 7 and 5, and the next group epoch."""
        self.log.record(8, None, member).record(7, None, member).record(5, None, member).record(
            3, epoch(self.new + group_epoch)
        )
        return self

    def reported(self):
        """The group's state, and each member's epoch, state, partitions and those that it has to give up."""
        assert self.log.failed == {}
        members = self.log.members()
        row = self.log.group()
        owned = Counter(chain.from_iterable(_both(each) for each in members.values()))
        targets = Counter(chain.from_iterable(_numbers(each.target_partitions) for each in members.values()))
        assert {*owned.values(), *targets.values()} <= {1}
        assert all(each.member_epoch <= row.assignment_epoch <= row.group_epoch for each in members.values())
        return row.state, {
            name: (
                each.member_epoch if each.member_epoch == AWAY else each.member_epoch - self.new,
                each.member_state,
                _numbers(each.assigned_partitions),
                _numbers(each.pending_revocation_partitions),
            )
            for name, each in members.items()
        }


def _numbers(partitions):
    return [each.partition for each in partitions or ()]


def _both(row):
    return [*_numbers(row.assigned_partitions), *_numbers(row.pending_revocation_partitions)]


@pytest.fixture(params=["4.0", "4.2", "4.3", "4.4"])
def story(request):
    return Story(request.param)


def two_members(story):
    """a with 0, 1, 2 and b with 3, 4, 5, both at epoch 2."""
    story.joins("a", 1).assigns(1, a=range(6)).has("a", 1, range(6))
    story.joins("b", 2).assigns(2, a=(0, 1, 2), b=(3, 4, 5))
    return story.has("a", 2, (0, 1, 2)).has("b", 2, (3, 4, 5))


def test_members_join_and_no_partition_ever_has_two_owners(story):
    story.joins("a", 1)
    assert story.reported()[0] == "Assigning"
    story.assigns(1, a=range(6)).has("a", 1, range(6))
    assert story.reported() == ("Stable", {"a": (1, "STABLE", [0, 1, 2, 3, 4, 5], [])})
    # b comes: it is to have 3, 4, 5, which a still has.
    story.joins("b", 2).assigns(2, a=(0, 1, 2), b=(3, 4, 5)).has("b", 2, (), UNRELEASED)
    assert story.reported() == (
        "Reconciling",
        {"a": (1, "STABLE", [0, 1, 2, 3, 4, 5], []), "b": (2, "UNRELEASED_PARTITIONS", [], [])},
    )
    # a's next heartbeat tells it to give them up; until it has, it stays in its epoch, and b waits.
    story.has("a", 1, (0, 1, 2), UNREVOKED, pending=(3, 4, 5))
    assert story.reported()[1]["a"] == (1, "UNREVOKED_PARTITIONS", [0, 1, 2], [3, 4, 5])
    story.has("a", 2, (0, 1, 2))
    assert story.reported()[0] == "Reconciling"
    story.has("b", 2, (3, 4, 5))
    assert story.reported() == ("Stable", {"a": (2, "STABLE", [0, 1, 2], []), "b": (2, "STABLE", [3, 4, 5], [])})
    # c takes one of each, and gets each as soon as it is free, not both at once.
    story.joins("c", 3).assigns(3, a=(0, 1), b=(3, 4), c=(2, 5)).has("c", 3, (), UNRELEASED)
    story.has("a", 2, (0, 1), UNREVOKED, pending=(2,)).has("b", 2, (3, 4), UNREVOKED, pending=(5,))
    story.has("a", 3, (0, 1)).has("c", 3, (2,), UNRELEASED)
    state, members = story.reported()
    assert (state, members["c"]) == ("Reconciling", (3, "UNRELEASED_PARTITIONS", [2], []))
    story.has("b", 3, (3, 4)).has("c", 3, (2, 5))
    assert story.reported()[0] == "Stable"


def test_a_member_leaves_and_the_others_get_its_partitions(story):
    two_members(story).leaves("b", 3)
    assert story.reported() == ("Assigning", {"a": (2, "STABLE", [0, 1, 2], [])})
    story.assigns(3, a=range(6))
    assert story.reported()[0] == "Reconciling"
    story.has("a", 3, range(6))
    assert story.reported() == ("Stable", {"a": (3, "STABLE", [0, 1, 2, 3, 4, 5], [])})
    # The last one goes: the next epoch is never assigned, and the group is Empty at once.
    story.leaves("a", 4)
    assert story.reported() == ("Empty", {})


def test_a_member_that_does_not_give_up_in_time_is_fenced(story):
    two_members(story).joins("c", 3).assigns(3, a=(0, 1), b=(3, 4), c=(2, 5)).has("c", 3, (), UNRELEASED)
    story.has("a", 2, (0, 1), UNREVOKED, pending=(2,)).has("b", 3, (3, 4)).has("c", 3, (5,), UNRELEASED)
    state, members = story.reported()
    assert (state, members["a"][1]) == ("Reconciling", "UNREVOKED_PARTITIONS")
    # Its rebalance timeout is over: the coordinator removes it as if it had left, and c need not wait any longer.
    story.leaves("a", 4).assigns(4, b=(0, 3, 4), c=(1, 2, 5))
    story.has("b", 4, (0, 3, 4)).has("c", 4, (1, 2, 5))
    assert story.reported() == ("Stable", {"b": (4, "STABLE", [0, 3, 4], []), "c": (4, "STABLE", [1, 2, 5], [])})


def test_a_static_member_comes_back_and_nothing_moves(story):
    story.joins("a", 1, instanceId="i-1").assigns(1, a=range(3)).has("a", 1, range(3))
    story.joins("b", 2).assigns(2, b=range(3, 6)).has("b", 2, range(3, 6)).has("a", 2, range(3))
    # It goes for a while, and keeps its partitions; its group waits for it.
    story.has("a", AWAY, range(3))
    state, members = story.reported()
    assert (state, members["a"][0], members["a"][2]) == ("Reconciling", AWAY, [0, 1, 2])
    # A new process has its instance id: the old member id goes, the new one takes over all of it, and no epoch rises.
    story.log.record(8, None, "a").record(7, None, "a").record(5, None, "a")
    story.log.record(5, consumer_member(instanceId="i-1"), "a-again").record(7, target(0, 1, 2), "a-again")
    story.log.record(8, current(0, 0, 1, 2), "a-again")
    story.has("a-again", 2, range(3))
    assert story.reported() == ("Stable", {"b": (2, "STABLE", [3, 4, 5], []), "a-again": (2, "STABLE", [0, 1, 2], [])})
    assert story.log.group().group_epoch == story.new + 2


def test_a_member_has_the_epoch_of_the_old_assignment_until_there_is_a_new_one(story):
    """Since 4.3 a coordinator may assign later (group.consumer.assignment.interval.ms)."""
    story.joins("a", 1).assigns(1, a=range(6)).has("a", 1, range(6))
    story.joins("b", 2).has("b", 1, ())
    assert story.reported() == ("Assigning", {"a": (1, "STABLE", [0, 1, 2, 3, 4, 5], []), "b": (1, "STABLE", [], [])})


def test_a_topic_gets_partitions_and_only_these_move(story):
    two_members(story).bumps(3)
    assert story.reported()[0] == "Assigning"
    story.assigns(3, a=(0, 1, 2, 6), b=(3, 4, 5, 7))
    assert story.reported() == ("Reconciling", {"a": (2, "STABLE", [0, 1, 2], []), "b": (2, "STABLE", [3, 4, 5], [])})
    # Each gets its new one with its own next heartbeat: nobody gives anything up, nobody waits.
    story.has("a", 3, (0, 1, 2, 6))
    assert story.reported()[0] == "Reconciling"
    story.has("b", 3, (3, 4, 5, 7))
    assert story.reported() == ("Stable", {"a": (3, "STABLE", [0, 1, 2, 6], []), "b": (3, "STABLE", [3, 4, 5, 7], [])})
