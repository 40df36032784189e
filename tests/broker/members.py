"""Clients of a test: members of groups that stay until they are stopped, and producers with transactions.

Those of classic and KIP-848 groups are librdkafka's, by confluent-kafka.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from queue import Empty, Queue
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.broker.brokers import until
from tests.broker.java_clients import JavaClients, Slot

# librdkafka says on stderr what it does; a test that fails has an exception of its own.
SILENT = logging.getLogger("tests.broker.librdkafka")
SILENT.setLevel(logging.CRITICAL + 1)

T = TypeVar("T")
REBALANCING = {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH}
LONG_MS = 900_000  # the longest that a broker lets a transaction be open


class Member:
    """A consumer with a thread that polls. `subscribe`: topics, or regular expressions that begin with ^."""

    def __init__(
        self, address: str, group: str, subscribe: Iterable[str], protocol: str = "classic", **settings: object
    ) -> None:
        self.group = group
        own: dict[str, object] = {"group.protocol": protocol}
        if protocol == "classic":
            own |= {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 300}
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "client.id": f"client-of-{group}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "reconnect.backoff.max.ms": 500,  # brokers restart
                "broker.address.family": "v4",
                **own,
                **named,
            },
            logger=SILENT,
        )
        self._consumer.subscribe(list(subscribe))
        self._asked: Queue[Callable[[], None]] = Queue()
        self._is_member = True
        self._thread = threading.Thread(target=self._poll, name=f"member of {group}", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while self._is_member:
            with contextlib.suppress(Empty):
                while True:
                    self._asked.get_nowait()()
            if self._is_member:
                self._consumer.poll(0.05)

    def ask(self, question: Callable[[Consumer], T]) -> T:
        """The consumer's answer. The thread that polls asks for it between two polls: any other thread could wait for
        it for ever."""
        answer: Future[T] = Future()

        def asked() -> None:
            try:
                answer.set_result(question(self._consumer))
            except Exception as error:
                answer.set_exception(error)

        self._asked.put(asked)
        return answer.result(90)

    def assignment(self) -> list[Slot]:
        return sorted((each.topic, each.partition) for each in self.ask(Consumer.assignment))

    def position(self, slot: Slot) -> int:
        """The offset that it reads next."""
        (position,) = self.ask(lambda consumer: consumer.position([TopicPartition(*slot)]))
        return int(position.offset)

    def commit(self, offsets: Mapping[Slot, int], metadata: str = "") -> None:
        """Commits, again while the group rebalances."""

        def is_committed() -> bool:
            try:
                self.ask(
                    lambda consumer: consumer.commit(offsets=topic_partitions(offsets, metadata), asynchronous=False)
                )
            except KafkaException as error:
                if error.args[0].code() not in REBALANCING:
                    raise
                return False
            return True

        until(f"{self.group} committed", is_committed)

    def close(self) -> None:
        """Leaves as a client that shuts down does: static members stay members for a while."""

        def leave(consumer: Consumer) -> None:
            self._is_member = False
            consumer.close()

        if self._is_member:
            self.ask(leave)
            self._thread.join()


class ShareMember:
    """A member of a share group with a thread that polls and accepts what it gets: Java's."""

    def __init__(self, clients: JavaClients, group: str, topics: Iterable[str]) -> None:
        self.read = 0
        self._is_member = True
        self._thread = threading.Thread(target=self._poll, args=(clients, group, list(topics)), daemon=True)
        self._thread.start()

    def _poll(self, clients: JavaClients, group: str, topics: list[str]) -> None:
        consumer = clients.consumer("KafkaShareConsumer", group_id=group, client_id=f"client-of-{group}")
        consumer.subscribe(topics)
        while self._is_member:
            self.read += consumer.poll(clients.jvm.java.time.Duration.ofMillis(100)).count()
        consumer.close()

    def close(self) -> None:
        """Leaves."""
        self._is_member = False
        self._thread.join()


class Transactions:
    """A producer that sends offsets to transactions."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = LONG_MS) -> None:
        self._address = address
        self.producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "broker.address.family": "v4",
            },
            logger=SILENT,
        )
        self.producer.init_transactions(60)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, group: str | Member, offsets: Mapping[Slot, int], metadata: str = "") -> None:
        """Offsets of a group whose members the broker does not check, or of one of its members."""
        if isinstance(group, Member):
            sender = group.ask(Consumer.consumer_group_metadata)
        else:
            nobody = Consumer({"bootstrap.servers": self._address, "group.id": group}, logger=SILENT)
            sender = nobody.consumer_group_metadata()
            nobody.close()
        self.producer.send_offsets_to_transaction(topic_partitions(offsets, metadata), sender, 60)

    def commit(self) -> None:
        self.producer.commit_transaction(60)

    def abort(self) -> None:
        self.producer.abort_transaction(60)


def topic_partitions(offsets: Mapping[Slot, int], metadata: str = "") -> list[TopicPartition]:
    return [TopicPartition(*slot, offset, metadata) for slot, offset in offsets.items()]
