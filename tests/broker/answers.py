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
        "share_offsets": {name: asked.share_offsets(name) for name in groups if name not in with_offsets},
    }


# By type of a group the request that describes it, its version and its field for names.
DESCRIBE = {
    "classic": ("DescribeGroups", 5, "groups"),
    "consumer": ("ConsumerGroupDescribe", 1, "groupIds"),
    "share": ("ShareGroupDescribe", 1, "groupIds"),
    "streams": ("StreamsGroupDescribe", 0, "groupIds"),
}


def listed(clients: JavaClients) -> dict[str, Json]:
    """The broker's groups by name, without what their coordinator says of them."""
    answer = clients.request("ListGroups", 5, statesFilter=[], typesFilter=[])
    assert answer["errorCode"] == 0, answer
    return {each["groupId"]: each | {"groupType": each["groupType"].lower()} for each in answer["groups"]}


def described(clients: JavaClients, kind: str, names: list[str]) -> dict[str, Json]:
    """Groups of a type, as the protocol has them."""
    request, version, field = DESCRIBE[kind]
    answer = clients.request(request, version, **{field: names}, includeAuthorizedOperations=False)
    return {group["groupId"]: group for group in answer["groups"]}


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
        found: Json = {}
        by_name = listed(self.clients)
        for kind in sorted({each["groupType"] for each in by_name.values()}):
            names = [name for name, each in by_name.items() if each["groupType"] == kind]
            for name, group in described(self.clients, kind, names).items():
                state, listed_state = group["groupState"], by_name[name]["groupState"]
                if group["errorCode"] or state != listed_state:
                    raise LogMoved(f"{name} is listed as {listed_state}, described as {group}")
                protocol_type = by_name[name]["protocolType"] or None
                found[name] = {
                    "group_type": kind,
                    "state": state,
                    "protocol_type": protocol_type,
                    "simple": kind == "classic" and protocol_type is None,
                    "members": {each["memberId"]: self._member(kind, group, each) for each in group["members"]},
                    **self._of_type(kind, group),
                }
        return dict(sorted(found.items()))

    def _of_type(self, kind: str, group: Json) -> Json:
        if kind == "classic":
            return {"protocol": group["protocolData"] or None}
        epochs = {"group_epoch": group["groupEpoch"], "assignment_epoch": group["assignmentEpoch"]}
        if kind != "streams":
            return epochs
        names = sorted(each["subtopologyId"] for each in group["topology"]["subtopologies"])
        return epochs | {"topology": {"epoch": group["topology"]["epoch"], "subtopologies": names}}

    def _member(self, kind: str, group: Json, member: Json) -> Json:
        found = {"client_id": member["clientId"], "client_host": member["clientHost"]}
        if kind == "classic":
            return found | self._classic_member(group["protocolType"] == "consumer", member)
        found |= {"rack_id": member["rackId"], "member_epoch": member["memberEpoch"]}
        if kind == "streams":
            found |= {"topology_epoch": member["topologyEpoch"], "process_id": member["processId"]}
            found |= {
                "assigned_tasks": _tasks(member["assignment"]),
                "target_tasks": _tasks(member["targetAssignment"]),
            }
        else:
            found["subscribed_topics"] = sorted(member["subscribedTopicNames"])
            found["assigned"] = _slots(member["assignment"])
        if kind == "consumer":
            found["subscribed_regex"] = member["subscribedTopicRegex"] or None
            found["uses_classic_protocol"] = member["memberType"] == 0
            found["target"] = _slots(member["targetAssignment"])
        return found if kind == "share" else found | {"group_instance_id": member["instanceId"]}

    def _classic_member(self, is_consumer: bool, member: Json) -> Json:
        """Kafka's own classes read what consumers say."""
        found: Json = {"group_instance_id": member["groupInstanceId"], "assigned": []}
        if is_consumer:
            java, protocol = self.clients.jvm.java, self.clients.kafka.clients.consumer.internals.ConsumerProtocol
            subscription, assignment = (
                java.nio.ByteBuffer.wrap(java.util.Base64.getDecoder().decode(member[name]))
                for name in ("memberMetadata", "memberAssignment")
            )
            found["subscribed_topics"] = sorted(protocol.deserializeSubscription(subscription).topics())
            assigned = protocol.deserializeAssignment(assignment).partitions() if member["memberAssignment"] else ()
            found["assigned"] = sorted([slot.topic(), slot.partition()] for slot in assigned)
        return found

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
        """Topic, partition, start offset, leader epoch and lag."""
        spec = self.clients.kafka.clients.admin.ListShareGroupOffsetsSpec()
        offsets = self.admin.listShareGroupOffsets({group: spec}).all().get()[group]
        return sorted(
            [
                slot.topic(),
                slot.partition(),
                offset.startOffset(),
                offset.leaderEpoch().orElse(None),
                offset.lag().get(),
            ]
            for slot, offset in offsets.items()
            if offset
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


def _slots(assignment: Json) -> list[list[Any]]:
    """Topic id and partition."""
    return sorted([each["topicId"], number] for each in assignment["topicPartitions"] for number in each["partitions"])


def _tasks(assignment: Json) -> list[list[Any]]:
    return sorted(
        [role, task["subtopologyId"], partition]
        for role in ("active", "standby", "warmup")
        for task in assignment[f"{role}Tasks"]
        for partition in task["partitions"]
    )


def _or_null(epoch: int) -> int | None:
    return None if epoch < 0 else epoch
