"""A group that commits without a pause, and others that seldom do."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.broker.brokers import until
from tests.broker.members import SILENT
from tests.broker.small_log import make_topic

TOPIC, PARTITIONS = "busy-topic", 200
BUSY, SELDOM = "busy", [f"seldom-{number}" for number in range(8)]
SECONDS_BETWEEN_COMMITS = 0.1
# One of the others commits after so many commits of the busy one.
BUSY_COMMITS = 7
# A log whose segments roll every second or two, and whose cleaner never rests. Brokers since 4.0 take no smaller ones.
METADATA = "m" * 300
ALWAYS_CLEANED = {
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.threads": "1",
}
Committed = dict[str, dict[int, int]]


class BusyTraffic:
    """A context manager: commits of PARTITIONS offsets every SECONDS_BETWEEN_COMMITS while it is open; each commit's
    offsets are higher than the ones before."""

    def __init__(self, address: str) -> None:
        self._address, self._over = address, threading.Event()
        self._thread = threading.Thread(target=self._commit_all_the_time, daemon=True)
        self._admin = AdminClient({"bootstrap.servers": address}, logger=SILENT)
        self.commits = 0

    def __enter__(self) -> Self:
        make_topic(self._address, TOPIC, PARTITIONS)
        self._thread.start()
        until("every group has committed", lambda: self.commits > BUSY_COMMITS * len(SELDOM))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def committed(self) -> Committed:
        """The offsets that the broker has now, by group and partition."""
        found: Committed = {}
        for group in (BUSY, *SELDOM):
            answer = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
            found[group] = {each.partition: each.offset for each in answer.topic_partitions or ()}
        return found

    def _commit_all_the_time(self) -> None:
        settings = {"bootstrap.servers": self._address}
        clients = {name: Consumer({**settings, "group.id": name}, logger=SILENT) for name in (BUSY, *SELDOM)}

        def commit(group: str) -> bool:
            offset = self.commits + 1
            offsets = [TopicPartition(TOPIC, partition, offset, METADATA) for partition in range(PARTITIONS)]
            try:
                return not any(each.error for each in clients[group].commit(offsets=offsets, asynchronous=False) or ())
            except Exception:
                return False

        while not self._over.is_set():
            began = time.monotonic()
            until("the busy group has committed", lambda: commit(BUSY))
            if self.commits % BUSY_COMMITS == 0:
                until("another group has committed", lambda: commit(SELDOM[self.commits // BUSY_COMMITS % len(SELDOM)]))
            self.commits += 1
            self._over.wait(max(0.0, SECONDS_BETWEEN_COMMITS - (time.monotonic() - began)))
        for client in clients.values():
            client.close()
