"""The lab that every scenario works with: one cluster, its clients, and methods that wait for a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer

from tests.broker.answers import Asking, Json, described, listed
from tests.broker.brokers import SMALL, Brokers, until
from tests.broker.java_clients import JavaClients, Slot
from tests.broker.members import LONG_MS, SILENT, Member, ShareMember, Transactions
from tests.slow_messages import offsets_partition


@dataclass(frozen=True)
class Expected:
    """The state that a scenario has brought about, by group.

    `groups`: type, state and count of members. `gone`: groups that are not listed. `committed`: all of a group's
    offsets. `unstable`: its partitions with an offset in an open transaction. `reloaded`: `committed` and `unstable` of
    groups of which a coordinator that has loaded its log says something else than one that runs; None: no such group.
    """

    groups: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    committed: Mapping[str, Mapping[Slot, int]] = field(default_factory=dict)
    unstable: Mapping[str, set[Slot]] = field(default_factory=dict)
    reloaded: Mapping[str, tuple[Mapping[Slot, int], set[Slot]] | None] = field(default_factory=dict)


Scenario = Callable[["Lab"], Iterator[Expected]]
# Session timeouts that pass and that do not.
SHORT_MS, NEVER_MS = 2_000, 300_000
GROUP_ID_NOT_FOUND = 69  # an error code


def at(slots: list[Slot], offset: int) -> dict[Slot, int]:
    """The same offset of each, kept apart by partition."""
    return {slot: offset + slot[1] for slot in slots}


class Lab:
    """One cluster. Names of groups are those of the scenarios; `slots`: all partitions of the topics made here."""

    def __init__(self, brokers: Brokers, clients: JavaClients) -> None:
        self.brokers, self.clients, self.admin = brokers, clients, clients.admin
        self.address, self.release = brokers.address, brokers.release
        self.members: list[Member | ShareMember] = []
        self.producers: list[Transactions] = []
        self.slots: set[Slot] = set()
        self.await_coordinator()

    @property
    def is_scala(self) -> bool:
        """Its coordinator is the old one, which knows classic groups alone."""
        return self.release < "4"

    def topic(self, name: str, partitions: int, records: int = 0) -> list[Slot]:
        """Makes a topic with so many records in each partition."""
        self.admin.createTopics([self.clients.kafka.clients.admin.NewTopic(name, partitions, 1)]).all().get()
        # Brokers learn of it a moment later than the controller, and librdkafka's members take their first answer for
        # long.
        until(f"topic {name} is known", lambda: name in self.admin.listTopics().names().get())
        slots = [(name, number) for number in range(partitions)]
        self.slots.update(slots)
        if records:
            self.produce(slots, records)
        return slots

    def produce(self, slots: Iterable[Slot], records: int) -> None:
        """Writes so many records to each."""
        producer = Producer({"bootstrap.servers": self.address, "broker.address.family": "v4"}, logger=SILENT)
        for number in range(records):
            for topic, partition in slots:
                producer.produce(topic, f"record {number}", f"key {number % 5}", partition=partition)
        assert producer.flush(30) == 0

    def delete_topic(self, name: str) -> None:
        self.admin.deleteTopics([name]).all().get()
        self.slots = {slot for slot in self.slots if slot[0] != name}

    def join(self, group: str, topics: Iterable[str], protocol: str = "classic", **settings: object) -> Member:
        member = Member(self.address, group, topics, protocol, **settings)
        self.members.append(member)
        return member

    def share(self, group: str, topics: Iterable[str]) -> ShareMember:
        member = ShareMember(self.clients, group, topics)
        self.members.append(member)
        return member

    def alter_share(self, group: str, offsets: Mapping[Slot, int]) -> None:
        """Sets start offsets of a share group without members. (Admin's method wants Java's Longs, which py4j does not
        make.)"""
        topics = [
            {"topicName": topic, "partitions": [{"partitionIndex": partition, "startOffset": offset}]}
            for (topic, partition), offset in offsets.items()
        ]
        answer = self.clients.request("AlterShareGroupOffsets", 0, groupId=group, topics=topics)
        errors = [each["errorCode"] for topic in answer["responses"] for each in topic["partitions"]]
        assert [answer["errorCode"], *errors] == [0] * (1 + len(offsets)), answer

    def transactions(self, transactional_id: str, timeout_ms: int = LONG_MS) -> Transactions:
        producer = Transactions(self.address, transactional_id, timeout_ms)
        self.producers.append(producer)
        return producer

    def alter(self, group: str, offsets: Mapping[Slot, int], metadata: str = "", epoch: int | None = None) -> None:
        """Sets offsets of a group without members by Admin."""
        self.admin.alterConsumerGroupOffsets(group, self.clients.offsets(offsets, metadata, epoch)).all().get()

    def delete_offsets(self, group: str, slots: Iterable[Slot]) -> None:
        self.admin.deleteConsumerGroupOffsets(group, self.clients.slots(slots)).all().get()

    def delete_group(self, group: str) -> None:
        self.admin.deleteConsumerGroups([group]).all().get()

    def group_setting(self, group: str, name: str, value: object) -> None:
        self._setting("GROUP", group, name, value)

    def broker_setting(self, name: str, value: object) -> None:
        """Sets it for all brokers, which apply it a moment later."""
        self._setting("BROKER", "", name, value)

    def _setting(self, kind: str, of: str, name: str, value: object) -> None:
        admin = self.clients.kafka.clients.admin
        kinds = getattr(self.clients.kafka.common.config, "ConfigResource$Type")
        resource = self.clients.kafka.common.config.ConfigResource(getattr(kinds, kind), of)
        operation = getattr(admin, "AlterConfigOp$OpType").SET
        change = admin.AlterConfigOp(admin.ConfigEntry(name, str(value)), operation)
        self.admin.incrementalAlterConfigs({resource: [change]}).all().get()

    def described(self, group: str) -> tuple[str, str, int] | None:
        """Type, state and count of members; None: not listed, or gone before it was described."""
        found = listed(self.clients).get(group)
        if found is None:
            return None
        kind, state = found["groupType"], found["groupState"]
        answer = described(self.clients, kind, [group])[group]
        return None if answer["errorCode"] == GROUP_ID_NOT_FOUND else (kind, state, len(answer["members"]))

    def await_group(self, group: str, kind: str, state: str, members: int) -> dict[str, tuple[str, str, int]]:
        """Waits until it is so; what is expected then."""
        wanted = (kind, state, members)
        until(f"{group} is {wanted}", lambda: self.described(group) == wanted)
        return {group: wanted}

    def await_assigned(self, partitions: int, *members: Member) -> None:
        """Waits until so many partitions are with these members, each with some."""

        def is_assigned() -> bool:
            counts = [len(member.assignment()) for member in members]
            return all(counts) and sum(counts) == partitions

        until(f"{partitions} partitions of {members[0].group} are with {len(members)} members", is_assigned)

    def await_committed(self, group: str, slots: Iterable[Slot]) -> None:
        """Waits until these are the partitions of which the group has offsets."""
        asked, wanted = Asking(self.clients), {tuple(slot) for slot in slots}
        until(f"{group} has offsets of {wanted}", lambda: {(t, p) for t, p, *_ in asked.committed(group)} == wanted)

    def await_position(self, member: Member, slot: Slot, offset: int) -> None:
        """Waits until a member has read so far."""

        until(f"{member.group} has read {slot} up to {offset}", lambda: member.position(slot) == offset)

    def await_transaction(self, transactional_id: str, state: str) -> None:
        """Waits until the transaction's markers are written."""

        def is_so() -> bool:
            described = self.admin.describeTransactions([transactional_id]).description(transactional_id).get()
            return str(described.state()) == state

        until(f"{transactional_id} is {state}", is_so)

    def vanishing_member(
        self, group: str, topics: Iterable[str], protocol: str, **settings: object
    ) -> Callable[[], None]:
        """A member that joins, and goes without leaving, as if it were killed. The function that is returned waits
        until the coordinator no longer counts the member."""
        settings |= {"group_protocol": protocol, "client_id": f"vanishes-from-{group}", "enable_auto_commit": "false"}
        consumer = self.clients.consumer("KafkaConsumer", group_id=group, **settings)
        consumer.subscribe(list(topics))

        def has_joined() -> bool:
            consumer.poll(self.clients.jvm.java.time.Duration.ofMillis(100))
            return not consumer.assignment().isEmpty()

        until(f"{group} has another member", has_joined)
        described = self.described(group)
        assert described is not None
        consumer.close(self.clients.close_options("clients.consumer", "REMAIN_IN_GROUP"))
        return lambda: until(f"{group} has a member less", lambda: self.described(group) not in (None, described))

    def await_coordinator(self) -> None:
        """Waits until every offsets partition is loaded: until then groups are missing, without a word."""
        specification = self.clients.kafka.clients.admin.ListConsumerGroupOffsetsSpec()
        partitions = int(SMALL["offsets.topic.num.partitions"])
        names = {offsets_partition(name, partitions): name for name in (f"nobody-{number}" for number in range(32))}
        assert len(names) == partitions

        def is_loaded() -> bool:
            asked = dict.fromkeys(names.values(), specification)
            return self.admin.listConsumerGroupOffsets(asked).all().get() is not None

        until("offsets partitions are loaded", is_loaded)

    def close(self) -> None:
        """Members leave."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda member: member.close(), self.members))


@contextmanager
def lab_of(brokers: Brokers) -> Iterator[Lab]:
    """Its members leave at the end."""
    with JavaClients(brokers.address) as clients:
        lab = Lab(brokers, clients)
        yield lab
        lab.close()


def expected_in(answer: Json, expected: Expected) -> Expected:
    """The part of the answer that a scenario expects something of."""
    groups, committed, unstable = answer["groups"], answer["committed"], answer["unstable"]
    return Expected(
        {
            name: (groups[name]["group_type"], groups[name]["state"], len(groups[name]["members"]))
            for name in expected.groups
            if name in groups
        },
        gone=tuple(name for name in expected.gone if name not in groups),
        committed={
            name: {(topic, partition): offset for topic, partition, offset, *_ in committed.get(name, ())}
            for name in expected.committed
        },
        unstable={name: {(t, p) for t, p in unstable.get(name, ())} for name in expected.unstable},
        reloaded=expected.reloaded,
    )
