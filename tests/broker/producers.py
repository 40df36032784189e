"""Producers whose transactions end in every way or stay open, and transactions that no client will ever end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker.brokers import SMALL, until
from tests.broker.java_clients import JavaClients, Slot
from tests.broker.lab import Lab
from tests.broker.members import LONG_MS, Transactions
from tests.slow_messages import offsets_partition

GROUP = "state-group"
# Transactions of a process that is killed, with their timeouts.
KILLED = {"state-killed": LONG_MS, "state-timed-out": 1000}


class HandMade:
    """A producer that sends one request after another, as no client library would let it. Epochs do not go up by
    themselves (transaction version 1).

    `transactional_id` None: an idempotent producer, which the transaction coordinator does not know.
    """

    def __init__(self, clients: JavaClients, transactional_id: str | None, *, two_phase: bool = False) -> None:
        self._clients = clients
        fields: dict[str, object] = {"transactionalId": transactional_id, "transactionTimeoutMs": LONG_MS}
        fields |= {"producerId": -1, "producerEpoch": -1}
        version = 4
        if two_phase:
            version, fields = 6, {**fields, "enable2Pc": True, "keepPreparedTxn": False}
        answer = clients.request("InitProducerId", version, **fields)
        assert answer["errorCode"] == 0, answer
        self.producer_id: int = answer["producerId"]
        self._names = {
            # The group coordinator asks the transaction coordinator about this name, if it asks.
            "transactionalId": transactional_id or "nobody",
            "producerId": answer["producerId"],
            "producerEpoch": answer["producerEpoch"],
        }

    def add(self, group: str) -> None:
        """Tells the transaction coordinator that offsets of the group will be in the transaction."""
        answer = self._clients.request("AddOffsetsToTxn", 3, **self._names, groupId=group)
        assert answer["errorCode"] == 0, answer

    def send(self, group: str, offsets: Mapping[Slot, int]) -> None:
        """Writes offsets of the group in the transaction, again until the broker takes them."""
        until(f"{group} has {offsets} in a transaction", lambda: not any(self.sent(group, offsets)))

    def sent(self, group: str, offsets: Mapping[Slot, int]) -> list[int]:
        """The error codes for the partitions."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partitionIndex": partition,
                        "committedOffset": offset,
                        "committedLeaderEpoch": -1,
                        "committedMetadata": "",
                    }
                ],
            }
            for (topic, partition), offset in offsets.items()
        ]
        sender = {"groupId": group, "generationId": -1, "memberId": "", "groupInstanceId": None}
        answer = self._clients.request("TxnOffsetCommit", 3, **self._names, **sender, topics=topics)
        return [each["errorCode"] for topic in answer["topics"] for each in topic["partitions"]]

    def end(self, *, committed: bool) -> None:
        answer = self._clients.request("EndTxn", 3, **self._names, committed=committed)
        assert answer["errorCode"] == 0, answer

    def abort_on(self, partition: int) -> None:
        """Writes the marker that ends its transaction on a partition of __consumer_offsets, as Admin does."""
        ids = {name: self._names[name] for name in ("producerId", "producerEpoch")}
        here = [{"name": "__consumer_offsets", "partitionIndexes": [partition]}]
        marker = {**ids, "coordinatorEpoch": 0, "transactionResult": False, "topics": here}
        self._clients.request("WriteTxnMarkers", 1, markers=[marker])


@contextmanager
def transactions_of_every_end(lab: Lab, slot: Slot) -> Iterator[None]:
    """Transactions `state-<end>` with an offset of GROUP; what is open is ended afterwards."""
    killed = subprocess.Popen(
        [sys.executable, "-m", __name__, lab.address, GROUP, slot[0]], cwd=Path(__file__).parents[2]
    )
    for end in ("committed", "aborted", "fenced", "open"):
        producer = lab.transactions(f"state-{end}")
        producer.begin()
        producer.send(GROUP, {slot: 5})
        if end == "committed":
            producer.commit()
        elif end == "aborted":
            producer.abort()
    lab.transactions("state-fenced")
    lab.transactions("state-empty")
    java = _java_transactions(lab, slot)
    prepared = _prepared(lab, slot) if lab.release >= "4.3" else None
    assert killed.wait() == -signal.SIGKILL
    lab.await_transaction("state-timed-out", "CompleteAbort")
    lab.await_transaction("state-committed", "CompleteCommit")
    lab.await_transaction("state-aborted", "CompleteAbort")
    yield
    lab.transactions("state-open")
    lab.transactions("state-killed")
    java.abortTransaction()
    if prepared is not None:
        prepared.end(committed=True)


def _java_transactions(lab: Lab, slot: Slot) -> Any:
    """A transaction that committed, one that aborted and one that is open, of the Java client: its epoch goes up with
    each where the broker knows how."""
    producer = lab.clients.transactions("state-java", LONG_MS)
    group = lab.clients.kafka.clients.consumer.ConsumerGroupMetadata(GROUP)
    for end in (producer.commitTransaction, producer.abortTransaction, None):
        producer.beginTransaction()
        producer.sendOffsetsToTransaction(lab.clients.offsets({slot: 6}), group)
        if end is not None:
            end()
    return producer


def _prepared(lab: Lab, slot: Slot) -> HandMade:
    """A two-phase transaction whose external coordinator has not yet said how it ends: it has no timeout."""
    prepared = HandMade(lab.clients, "state-prepared", two_phase=True)
    prepared.add(GROUP)
    prepared.send(GROUP, {slot: 7})
    return prepared


@contextmanager
def transactions_that_hang(lab: Lab, slot: Slot) -> Iterator[dict[tuple[int, int], str]]:
    """Transactions that are open on a partition of __consumer_offsets although the transaction coordinator knows
    nothing of it: by partition and producer id the reason. They are ended afterwards.

    An offset commit of the group `state-late` comes after the marker. One of `state-elsewhere` goes to a partition that
    was not added to a transaction that is open. That of `state-nobody` has a producer id without a transactional id.
    Brokers write such commits down if they don't verify them, as before 3.6 (KIP-890).
    """
    lab.broker_setting("transaction.partition.verification.enable", "false")
    late, elsewhere = (HandMade(lab.clients, name) for name in ("state-late", "state-elsewhere"))
    late.add("state-late")
    late.send("state-late", {slot: 8})
    late.end(committed=True)
    lab.await_transaction("state-late", "CompleteCommit")
    elsewhere.add(GROUP)
    elsewhere.send(GROUP, {slot: 8})
    nobody = HandMade(lab.clients, None)
    hanging = {
        "state-late": (late, "partition_not_listed"),
        "state-elsewhere": (elsewhere, "partition_not_listed"),
        "state-nobody": (nobody, "producer_unknown"),
    }
    for group, (producer, _) in hanging.items():
        producer.send(group, {slot: 9})
    lab.broker_setting("transaction.partition.verification.enable", "true")
    yield {(_partition_of(group), producer.producer_id): why for group, (producer, why) in hanging.items()}
    for group, (producer, _) in hanging.items():
        producer.abort_on(_partition_of(group))
    elsewhere.end(committed=False)


def _partition_of(group: str) -> int:
    return offsets_partition(group, int(SMALL["offsets.topic.num.partitions"]))


def be_killed(address: str, group: str, topic: str) -> None:
    """Opens the transactions KILLED, and kills this process."""
    for name, timeout_ms in KILLED.items():
        producer = Transactions(address, name, timeout_ms)
        producer.begin()
        producer.send(group, {(topic, 0): 5})
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    be_killed(*sys.argv[1:])
