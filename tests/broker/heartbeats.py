"""Stories that KIP-848 describes, on a broker, heartbeat by heartbeat, and what its coordinator says after each."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.broker.answers import described
from tests.broker.brokers import until
from tests.broker.lab import Lab

LEAVES, IS_AWAY = -1, -2
PATIENT_MS, IMPATIENT_MS = 300_000, 2_000  # rebalance timeouts
AT_ONCE_MS, NEVER_MS = 0, 15_000  # how long after one assignment the next one may be made, at the least


class MemberReported(NamedTuple):
    """As ConsumerGroupDescribe has it: `assigned` with what the member has still to give up."""

    epoch: int
    assigned: list[int]
    target: list[int]


class Reported(NamedTuple):
    state: str
    group_epoch: int
    assignment_epoch: int
    members: dict[str, MemberReported]


class Step(NamedTuple):
    """A group as its coordinator described it at that moment, in ms."""

    group: str
    moment: int
    reported: Reported


class Story:
    """A group whose members send heartbeats when they are asked to, and give up at once what they are asked to.

    Epochs count from its first assignment.
    """

    def __init__(self, lab: Lab, group: str, interval_ms: int = AT_ONCE_MS) -> None:
        self.lab, self.group = lab, group
        self.steps: list[Step] = []
        self._first, self._epochs, self._owned = 0, dict[str, int](), dict[str, list[int]]()
        self.assigns_after(interval_ms)
        lab.topic(group, 6)
        described = lab.admin.describeTopics([group]).allTopicNames().get()[group]
        self._topic_id = str(described.topicId())

    def assigns_after(self, interval_ms: int) -> None:
        self.lab.group_setting(self.group, "consumer.assignment.interval.ms", interval_ms)

    def begins(self, member: str, instance: str | None = None) -> None:
        """The first member has everything."""
        self.joins(member, instance)
        until(f"{self.group} begins", lambda: self._beat(member) or len(self.reported().members[member].assigned) == 6)
        self._first = self.reported().group_epoch

    def joins(self, member: str, instance: str | None = None, rebalance_timeout_ms: int = PATIENT_MS) -> None:
        self._epochs[member], self._owned[member] = 0, []
        self._beat(member, instance, rebalanceTimeoutMs=rebalance_timeout_ms, subscribedTopicNames=[self.group])

    def leaves(self, member: str, how: int = LEAVES, instance: str | None = None) -> None:
        self._epochs[member] = how
        self._beat(member, instance)
        self.forgets(member)

    def forgets(self, member: str) -> None:
        """It is no member any more."""
        del self._epochs[member]

    def beats(self, *members: str) -> None:
        """Each sends a heartbeat that says what it has."""
        for member in members:
            self._beat(member)

    def is_assigned(self, member: str, group_epoch: int) -> None:
        """The target assignment follows the group, while the member sends heartbeats."""

        def follows() -> bool:
            self._beat(member)
            reported = self.reported()
            return reported.assignment_epoch == reported.group_epoch == self._first + group_epoch

        until(f"{self.group} is assigned in its epoch {group_epoch}", follows)

    def ends(self) -> None:
        """All leave."""
        for member in list(self._epochs):
            self.leaves(member)

    def reported(self) -> Reported:
        group = described(self.lab.clients, "consumer", [self.group])[self.group]
        assert group["errorCode"] == 0, group
        members = {
            each["memberId"]: MemberReported(
                each["memberEpoch"], _partitions(each["assignment"]), _partitions(each["targetAssignment"])
            )
            for each in group["members"]
        }
        return Reported(group["groupState"], group["groupEpoch"], group["assignmentEpoch"], members)

    def shows(self, state: str, **members: tuple[int, str, str]) -> None:
        """A step: the coordinator must report this state and these members, and nothing else changes within this
        millisecond. Each member is given by its epoch, its partitions and its target, a digit for each partition."""
        reported = self.reported()
        self.steps.append(Step(self.group, time.time_ns() // 1_000_000, reported))
        time.sleep(0.002)
        seen = {
            name: (
                each.epoch - self._first if each.epoch > 0 else each.epoch,
                "".join(map(str, each.assigned)),
                "".join(map(str, each.target)),
            )
            for name, each in reported.members.items()
        }
        assert (reported.state, seen) == (state, members)

    def _beat(self, member: str, instance: str | None = None, **fields: object) -> None:
        epoch, owned = self._epochs[member], self._owned[member]
        names = ("rackId", "subscribedTopicNames", "subscribedTopicRegex", "serverAssignor", "topicPartitions")
        sent = {**dict.fromkeys(names), "groupId": self.group, "memberId": member, "memberEpoch": epoch}
        sent |= {"instanceId": instance, "rebalanceTimeoutMs": -1}
        if epoch >= 0:
            sent["topicPartitions"] = [{"topicId": self._topic_id, "partitions": owned}] if owned else []
        answer = self.lab.clients.request("ConsumerGroupHeartbeat", 1, **{**sent, **fields})
        assert answer["errorCode"] == 0, answer
        if epoch >= 0:
            self._epochs[member] = answer["memberEpoch"]
            if answer["assignment"] is not None:
                self._owned[member] = _partitions(answer["assignment"])


def _partitions(assignment: dict[str, Any]) -> list[int]:
    return sorted(number for topic in assignment["topicPartitions"] for number in topic["partitions"])


def play_the_stories(lab: Lab) -> list[Step]:
    """The steps of all five, and of a group whose coordinator does not assign at once."""
    names = ("joins", "leaves", "gives-up-late", "comes-back", "grows")
    joins, leaves, late, back, grows = (Story(lab, f"story-{name}") for name in names)
    waits = Story(lab, "story-waits", NEVER_MS)
    for play, story in (
        (_a_member_does_not_give_up, late),
        (_members_join, joins),
        (_a_member_leaves, leaves),
        (_a_static_member_comes_back, back),
        (_a_topic_grows, grows),
        (_a_member_waits_for_an_assignment, waits),
        (_and_is_fenced, late),
    ):
        play(story)
    stories = (joins, leaves, late, back, grows, waits)
    for story in stories:
        story.ends()
        story.shows("Empty")
    return [step for story in stories for step in story.steps]


def _two_members(story: Story, instance: str | None = None) -> None:
    story.begins("a", instance)
    story.joins("b")
    story.is_assigned("b", 1)
    story.beats("a", "a", "b")
    story.shows("Stable", a=(1, "012", "012"), b=(1, "345", "345"))


def _members_join(story: Story) -> None:
    story.begins("a")
    story.shows("Stable", a=(0, "012345", "012345"))
    story.joins("b")
    story.is_assigned("b", 1)
    story.shows("Reconciling", a=(0, "012345", "012"), b=(1, "", "345"))
    story.beats("a")  # the coordinator asks for 3, 4, 5
    story.shows("Reconciling", a=(0, "012345", "012"), b=(1, "", "345"))
    story.beats("a")
    story.shows("Reconciling", a=(1, "012", "012"), b=(1, "", "345"))
    story.beats("b")
    story.shows("Stable", a=(1, "012", "012"), b=(1, "345", "345"))
    story.joins("c")
    story.is_assigned("c", 2)
    story.shows("Reconciling", a=(1, "012", "01"), b=(1, "345", "34"), c=(2, "", "25"))
    story.beats("a", "b", "a", "c")
    story.shows("Reconciling", a=(2, "01", "01"), b=(1, "345", "34"), c=(2, "2", "25"))
    story.beats("b", "c")
    story.shows("Stable", a=(2, "01", "01"), b=(2, "34", "34"), c=(2, "25", "25"))


def _a_member_leaves(story: Story) -> None:
    _two_members(story)
    story.leaves("b")
    story.shows("Assigning", a=(1, "012", "012"))
    story.is_assigned("a", 2)
    story.beats("a")
    story.shows("Stable", a=(2, "012345", "012345"))


def _a_member_does_not_give_up(story: Story) -> None:
    story.begins("b")
    story.joins("a", rebalance_timeout_ms=IMPATIENT_MS)
    story.is_assigned("a", 1)
    story.beats("b", "b", "a")
    story.shows("Stable", b=(1, "012", "012"), a=(1, "345", "345"))
    story.joins("c")
    story.is_assigned("c", 2)
    story.beats("a", "b", "b", "c")
    story.shows("Reconciling", a=(1, "345", "34"), b=(2, "01", "01"), c=(2, "2", "25"))


def _and_is_fenced(story: Story) -> None:
    until("a is fenced", lambda: "a" not in story.reported().members)
    story.shows("Assigning", b=(2, "01", "01"), c=(2, "2", "25"))
    story.forgets("a")
    story.is_assigned("b", 3)
    story.beats("b", "c")
    story.shows("Stable", b=(3, "013", "013"), c=(3, "245", "245"))


def _a_static_member_comes_back(story: Story) -> None:
    _two_members(story, "i-1")
    story.leaves("a", IS_AWAY, "i-1")
    story.shows("Reconciling", a=(IS_AWAY, "012", "012"), b=(1, "345", "345"))
    story.joins("a_again", "i-1")
    story.shows("Stable", a_again=(1, "012", "012"), b=(1, "345", "345"))


def _a_topic_grows(story: Story) -> None:
    _two_members(story)
    partitions = story.lab.clients.kafka.clients.admin.NewPartitions.increaseTo(8)
    story.lab.admin.createPartitions({story.group: partitions}).all().get()
    story.is_assigned("a", 2)
    story.beats("a")
    story.shows("Reconciling", a=(2, "0126", "0126"), b=(1, "345", "3457"))
    story.beats("b")
    story.shows("Stable", a=(2, "0126", "0126"), b=(2, "3457", "3457"))


def _a_member_waits_for_an_assignment(story: Story) -> None:
    story.begins("a")
    story.joins("b")
    story.shows("Assigning", a=(0, "012345", "012345"), b=(0, "", ""))
