"""A running broker's answers about groups, offsets and transactions, in the form of the corpora's `answers/*.json`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.broker.brokers import until
from tests.broker.java_clients import JavaClients, Slot

Json = dict[str, Any]
ATTEMPTS = 5
OFFSETS_TOPIC = "__consumer_offsets"
UNSTABLE_OFFSET_COMMIT = 88  # an error code


class LogMoved(Exception):
    """Something was written while the broker was asked."""


def while_the_log_stands_still(clients: JavaClients, ask: Callable[[], Json], then: Callable[[], None]) -> Json:
    """The answer of `ask`, and as `ends` the end offsets of the offsets partitions. Tries again if these have changed
    when `then` has returned."""
    moved: list[LogMoved] = []
    while len(moved) < ATTEMPTS:
        ends = still_end_offsets(clients)
        try:
            answer = {**ask(), "ends": ends}
            _assert_still(clients, ends)
            then()
            _assert_still(clients, ends)
        except LogMoved as error:
            moved.append(error)
        else:
            return answer
    raise AssertionError(f"the log goes on while the broker is asked: {moved}")


def _assert_still(clients: JavaClients, ends: dict[str, int]) -> None:
    now = end_offsets(clients, OFFSETS_TOPIC)
    if now != ends:
        raise LogMoved(f"{ends}, then {now}")


def still_end_offsets(clients: JavaClients) -> dict[str, int]:
    """The end offsets of the offsets partitions, once they have stayed the same for a second. Members need several
    heartbeats to hear of each other."""
    ends: list[dict[str, int]] = []

    def are_still() -> bool:
        ends.append(end_offsets(clients, OFFSETS_TOPIC))
        time.sleep(0.15)
        return len(ends) > 5 and all(each == ends[-1] for each in ends[-5:])

    until("the log stands still", are_still)
    return ends[-1]


def end_offsets(clients: JavaClients, topic: str) -> dict[str, int]:
    """By partition, as text."""
    slots = [(topic, number) for number in range(partition_count(clients, topic))]
    return {str(number): end for (_, number), (_, end) in log_offsets(clients, slots).items()}


def log_offsets(clients: JavaClients, slots: Iterable[Slot]) -> dict[Slot, tuple[int, int]]:
    """Where each partition's log starts and ends."""
    asked = {slot: clients.slot(slot) for slot in sorted(slots)}
    kinds = clients.kafka.clients.admin.OffsetSpec
    start, end = (
        clients.admin.listOffsets(dict.fromkeys(asked.values(), kind)).all().get()
        for kind in (kinds.earliest(), kinds.latest())
    )
    return {slot: (start[each].offset(), end[each].offset()) for slot, each in asked.items()}


def partition_count(clients: JavaClients, topic: str) -> int:
    """How many partitions a topic has."""
    described = clients.admin.describeTopics([topic]).allTopicNames().get()[topic]
    return len(described.partitions())


def answers(clients: JavaClients, release: str, slots: Iterable[Slot]) -> Json:
    """All that is compared. `slots`: partitions of which the broker is asked whether a group's offsets are stable."""
    asked = Asking(clients)
    groups = asked.groups()
    slots = sorted(slots)
    with_offsets = [name for name, group in groups.items() if group["group_type"] != "share"]
    return {
        "release": release,
        "groups": groups,
        "committed": asked.committed_of(with_offsets),
        "unstable": asked.unstable_of(with_offsets, slots),
        "open_transactions": asked.producers(),
        "transactions": asked.transactions(),
        "topic_ids": {topic_id: name for name, topic_id in asked.topic_ids.items()},
        "log_offsets": log_offsets(clients, slots),
        "share_start_offsets": {name: asked.share_offsets(name) for name in groups if name not in with_offsets},
    }


class Asking:
    """Questions to one broker."""

    def __init__(self, clients: JavaClients) -> None:
        self.clients, self.admin = clients, clients.admin
        options = clients.kafka.clients.admin.ListTopicsOptions().listInternal(True)
        names = self.admin.listTopics(options).names().get()
        described = self.admin.describeTopics(names).allTopicNames().get()
        self.topic_ids = {name: str(described[name].topicId()) for name in names}

    def groups(self) -> Json:
        """All groups: classic ones as every release describes them, the others with their epochs, too."""
        listed = {each.groupId(): each for each in self.clients.each(self.admin.listGroups().all().get())}
        kinds = {name: str(listing.type().get()).lower() for name, listing in listed.items()}
        found: Json = {}
        for kind in sorted(set(kinds.values())):
            describe: Callable[[list[str]], Json] = getattr(self, f"_{kind}")
            found |= describe([name for name, each in kinds.items() if each == kind])
        for name, listing in listed.items():
            if found[name]["state"] != str(listing.groupState().get()):
                raise LogMoved(f"{name} is listed as {listing}, described as {found[name]}")
            found[name]["group_type"], found[name]["simple"] = kinds[name], listing.isSimpleConsumerGroup()
            found[name]["protocol_type"] = str(listing.protocol()) or None
        return dict(sorted(found.items()))

    def _wire(self, request: str, version: int, field: str, names: list[str]) -> dict[str, Json]:
        """The broker's answer to a request, by group."""
        answer = self.clients.request(request, version, **{field: names}, includeAuthorizedOperations=False)
        return {group["groupId"]: group for group in answer["groups"]}

    def _classic(self, names: list[str]) -> Json:
        described, wire = (
            self.admin.describeClassicGroups(names).all().get(),
            self._wire("DescribeGroups", 5, "groups", names),
        )
        return {name: self._classic_group(described[name], wire[name]) for name in names}

    def _classic_group(self, group: Any, wire: Json) -> Json:
        members = {}
        for member in self.clients.each(group.members()):
            members[member.consumerId()] = {
                **_of_member(member),
                "group_instance_id": _or_none(member.groupInstanceId()),
                "assigned": self._slots(member.assignment()),
            }
        for each in wire["members"] if wire["protocolType"] == "consumer" else ():
            members[each["memberId"]]["subscribed_topics"] = self._subscribed(each["memberMetadata"])
        return {"state": str(group.state()), "protocol": group.protocolData() or None, "members": members}

    def _consumer(self, names: list[str]) -> Json:
        described = self.admin.describeConsumerGroups(names).all().get()
        wire = self._wire("ConsumerGroupDescribe", 1, "groupIds", names)
        return {name: self._consumer_group(described[name], wire[name]) for name in names}

    def _consumer_group(self, group: Any, wire: Json) -> Json:
        members = {}
        for member in self.clients.each(group.members()):
            members[member.consumerId()] = {
                **_of_member(member),
                "group_instance_id": _or_none(member.groupInstanceId()),
                "rack_id": _or_none(member.rackId()),
                "member_epoch": member.memberEpoch().get(),
                "uses_classic_protocol": member.upgraded().get() is False,
                "assigned": self._slots(member.assignment(), by_id=True),
                "target": self._slots(member.targetAssignment().get(), by_id=True),
            }
        for each in wire["members"]:
            members[each["memberId"]] |= {
                "subscribed_topics": sorted(each["subscribedTopicNames"]),
                "subscribed_regex": each["subscribedTopicRegex"] or None,
            }
        return {
            "state": str(group.groupState()),
            "group_epoch": group.groupEpoch().get(),
            "assignment_epoch": group.targetAssignmentEpoch().get(),
            "members": members,
        }

    def _share(self, names: list[str]) -> Json:
        described = self.admin.describeShareGroups(names).all().get()
        wire = self._wire("ShareGroupDescribe", 1, "groupIds", names)
        return {name: self._share_group(described[name], wire[name]) for name in names}

    def _share_group(self, group: Any, wire: Json) -> Json:
        members = {}
        for member in self.clients.each(group.members()):
            members[member.consumerId()] = {
                **_of_member(member),
                "rack_id": _or_none(member.rackId()),
                "member_epoch": member.memberEpoch(),
                "assigned": self._slots(member.assignment(), by_id=True),
            }
        for each in wire["members"]:
            members[each["memberId"]]["subscribed_topics"] = sorted(each["subscribedTopicNames"])
        return {
            "state": str(group.groupState()),
            "group_epoch": group.groupEpoch(),
            "assignment_epoch": group.targetAssignmentEpoch(),
            "members": members,
        }

    def _streams(self, names: list[str]) -> Json:
        described = self.admin.describeStreamsGroups(names).all().get()
        return {name: self._streams_group(described[name]) for name in names}

    def _streams_group(self, group: Any) -> Json:
        members = {}
        for member in self.clients.each(group.members()):
            members[member.memberId()] = {
                "client_id": member.clientId(),
                "client_host": member.clientHost(),
                "group_instance_id": _or_none(member.instanceId()),
                "rack_id": _or_none(member.rackId()),
                "member_epoch": member.memberEpoch(),
                "topology_epoch": member.topologyEpoch(),
                "process_id": member.processId(),
                "assigned_tasks": self._tasks(member.assignment()),
                "target_tasks": self._tasks(member.targetAssignment()),
            }
        subtopologies = [each.subtopologyId() for each in self.clients.each(group.subtopologies())]
        return {
            "state": str(group.groupState()),
            "group_epoch": group.groupEpoch(),
            "assignment_epoch": group.targetAssignmentEpoch(),
            "topology": {"epoch": group.topologyEpoch(), "subtopologies": sorted(subtopologies)},
            "members": members,
        }

    def committed(self, group: str) -> list[list[Any]]:
        """Topic, partition, offset, leader epoch and metadata of every committed offset."""
        return self.committed_of([group])[group]

    def committed_of(self, groups: Iterable[str]) -> dict[str, list[list[Any]]]:
        """The same by group."""
        return {
            group: sorted(
                [
                    topic,
                    each["partitionIndex"],
                    each["committedOffset"],
                    _or_null(each["committedLeaderEpoch"]),
                    each["metadata"],
                ]
                for topic, each in partitions
                if each["committedOffset"] >= 0
            )
            for group, partitions in self._fetched(groups, None).items()
        }

    def unstable(self, group: str, slots: Iterable[Slot]) -> list[list[Any]]:
        """Which of the partitions have an offset in an open transaction."""
        return self.unstable_of([group], slots)[group]

    def unstable_of(self, groups: Iterable[str], slots: Iterable[Slot]) -> dict[str, list[list[Any]]]:
        """The same by group."""
        return {
            group: sorted(
                [topic, each["partitionIndex"]]
                for topic, each in partitions
                if each["errorCode"] == UNSTABLE_OFFSET_COMMIT
            )
            for group, partitions in self._fetched(groups, slots).items()
        }

    def _fetched(self, groups: Iterable[str], slots: Iterable[Slot] | None) -> dict[str, list[tuple[str, Json]]]:
        """Topics and partitions as OffsetFetch has them: those of a stable answer, or all as they are."""
        asked: dict[str, list[int]] = {}
        for topic, partition in slots or ():
            asked.setdefault(topic, []).append(partition)
        topics = [{"name": topic, "partitionIndexes": partitions} for topic, partitions in asked.items()]
        wanted = [{"groupId": group, "topics": None if slots is None else topics} for group in groups]
        answer = self.clients.request("OffsetFetch", 8, groups=wanted, requireStable=slots is not None)
        errors = {
            each["errorCode"] for group in answer["groups"] for topic in group["topics"] for each in topic["partitions"]
        }
        assert errors | {group["errorCode"] for group in answer["groups"]} <= {0, UNSTABLE_OFFSET_COMMIT}, answer
        return {
            group["groupId"]: [(topic["name"], each) for topic in group["topics"] for each in topic["partitions"]]
            for group in answer["groups"]
        }

    def share_offsets(self, group: str) -> list[list[Any]]:
        """Topic, partition and start offset."""
        spec = self.clients.kafka.clients.admin.ListShareGroupOffsetsSpec()
        offsets = self.admin.listShareGroupOffsets({group: spec}).all().get()[group]
        return sorted(
            [slot.topic(), slot.partition(), offset.startOffset()] for slot, offset in offsets.items() if offset
        )

    def producers(self) -> dict[str, list[list[int]]]:
        """By offsets partition, id of each producer and where its open transaction starts."""
        found: dict[str, list[list[int]]] = {}
        for number in range(partition_count(self.clients, OFFSETS_TOPIC)):
            slot = self.clients.slot((OFFSETS_TOPIC, number))
            states = self.admin.describeProducers([slot]).partitionResult(slot).get().activeProducers()
            found[str(number)] = sorted(
                [each.producerId(), each.currentTransactionStartOffset().getAsLong()]
                for each in self.clients.each(states)
                if each.currentTransactionStartOffset().isPresent()
            )
        return found

    def transactions(self) -> dict[str, list[list[int]]]:
        """By offsets partition, producer id and epoch of each transaction that its coordinator calls Ongoing."""
        found: dict[str, list[list[int]]] = {}
        names = [each.transactionalId() for each in self.clients.each(self.admin.listTransactions().all().get())]
        described = self.admin.describeTransactions(names).all().get()
        for name in names:
            transaction = described[name]
            for slot in transaction.topicPartitions() if str(transaction.state()) == "Ongoing" else ():
                if slot.topic() == OFFSETS_TOPIC:
                    producer = [transaction.producerId(), transaction.producerEpoch()]
                    found.setdefault(str(slot.partition()), []).append(producer)
        return {partition: sorted(producers) for partition, producers in sorted(found.items())}

    def _slots(self, assignment: Any, *, by_id: bool = False) -> list[list[Any]]:
        return sorted(
            [self.topic_ids[slot.topic()] if by_id else slot.topic(), slot.partition()]
            for slot in assignment.topicPartitions()
        )

    def _tasks(self, assignment: Any) -> list[list[Any]]:
        roles = {"active": assignment.activeTasks(), "standby": assignment.standbyTasks()}
        roles["warmup"] = assignment.warmupTasks()
        return sorted(
            [role, task.subtopologyId(), partition]
            for role, tasks in roles.items()
            for task in tasks
            for partition in task.partitions()
        )

    def _subscribed(self, metadata: str) -> list[str]:
        """Topics of a consumer's subscription; `metadata` in base64."""
        java = self.clients.jvm.java
        buffer = java.nio.ByteBuffer.wrap(java.util.Base64.getDecoder().decode(metadata))
        consumer = self.clients.kafka.clients.consumer.internals.ConsumerProtocol
        return sorted(consumer.deserializeSubscription(buffer).topics())


def _of_member(member: Any) -> Json:
    return {"client_id": member.clientId(), "client_host": member.host()}


def _or_none(optional: Any) -> Any:
    return optional.get() if optional.isPresent() else None


def _or_null(epoch: int) -> int | None:
    return None if epoch < 0 else epoch
