"""Which open transactions are hanging, by Kafka's own rule, that of `kafka-transactions find-hanging`.

A transaction that is open on a partition is hanging if its producer's last record there is older than the maximum, and
the transaction coordinator does not know the producer, or does not list the partition: then no coordinator will write
its marker.
(TransactionsCommand.FindHangingTransactionsCommand, 4.3.1: collectCandidateOpenTransactions,
filterHangingTransactions.) Three rules are ours:

- A two-phase transaction (KIP-939) is never hanging, whatever is listed: an external coordinator ends it.
- If `__transaction_state` was not read, only in part, or not as far as the transaction, the verdict is only that the
  transaction has been open for longer than the maximum.
- Producers are looked up in the log instead of by ListTransactions, which leaves out ids in state Dead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kgroups_spark.transaction_coordinator.rows import TopicPartition, TransactionalIdRow
from kgroups_spark.transaction_coordinator.shard import TWO_PHASE_TIMEOUT_MS


class Verdict(Enum):
    """The verdict on a transaction that is open on a partition."""

    WITHIN_MAXIMUM = "open for no longer than the maximum"
    LISTED = "the transaction coordinator lists the partition and will write the marker"
    TWO_PHASE = "an external coordinator ends it"
    PARTITION_NOT_LISTED = "the transaction coordinator does not list the partition"
    PRODUCER_UNKNOWN = "the transaction coordinator does not know the producer"
    NOT_KNOWN = "open for longer than the maximum; __transaction_state, which the coordinator writes, was not read"

    @property
    def is_hanging(self) -> bool:
        return self in (Verdict.PARTITION_NOT_LISTED, Verdict.PRODUCER_UNKNOWN)


@dataclass(frozen=True, slots=True)
class OpenOnPartition:
    """A transaction that is open on a partition. `last_timestamp`: of the producer's last record there, epoch ms; None:
    it has none."""

    topic_partition: TopicPartition
    producer_id: int
    last_timestamp: int | None


class Listings:
    """The transaction coordinator's listing: rows of `transactional_ids`, by their present producer.

    `is_complete`: every partition of `__transaction_state` was read. `known_until`: the time up to which they were
    read, in epoch ms; None: up to now.
    """

    def __init__(
        self, rows: Iterable[TransactionalIdRow], *, is_complete: bool = True, known_until: int | None = None
    ) -> None:
        self.is_complete = is_complete
        self.known_until = known_until
        self._by_producer: defaultdict[int, list[TransactionalIdRow]] = defaultdict(list)
        for row in rows:
            if row.producer_id is not None and row.state != "Dead":
                self._by_producer[row.producer_id].append(row)

    def of_producer(self, producer_id: int) -> list[TransactionalIdRow]:
        """The transactional ids with that producer: one, unless the log is damaged."""
        return self._by_producer.get(producer_id, [])

    def transactional_id(self, producer_id: int) -> str | None:
        """The transactional id of a producer id; None: the coordinator does not know the producer."""
        rows = self.of_producer(producer_id)
        return rows[0].transactional_id if rows else None


def verdict(transaction: OpenOnPartition, listings: Listings | None, now: int, maximum_ms: int) -> Verdict:
    """Whether a transaction hangs. `listings` None: `__transaction_state` was not read."""
    last = -1 if transaction.last_timestamp is None else transaction.last_timestamp
    rows = [] if listings is None else listings.of_producer(transaction.producer_id)
    if any(row.timeout_ms == TWO_PHASE_TIMEOUT_MS for row in rows):
        return Verdict.TWO_PHASE
    if now - last <= maximum_ms:
        return Verdict.WITHIN_MAXIMUM
    if any(transaction.topic_partition in row.topic_partitions for row in rows):
        return Verdict.LISTED
    if listings is None or (listings.known_until is not None and listings.known_until < last):
        return Verdict.NOT_KNOWN
    if rows:
        return Verdict.PARTITION_NOT_LISTED
    return Verdict.PRODUCER_UNKNOWN if listings.is_complete else Verdict.NOT_KNOWN
