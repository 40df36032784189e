"""The rows of `transactional_ids`, and events of producers, as plain tuples. Times are epoch milliseconds."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class TransactionalIdRow(NamedTuple):
    """A row of `transactional_ids`. `state_partition`: the partition of `__transaction_state`. Null for Kafka's -1."""

    state_partition: int
    transactional_id: str
    producer_id: int | None
    producer_epoch: int | None
    previous_producer_id: int | None  # of the last committed transaction, if TV2 took a new producer id
    next_producer_id: int | None  # promised to the producer; the record that ends the transaction takes it
    next_producer_epoch: int | None
    state: str  # as kafka-transactions describe prints it
    timeout_ms: int
    topic_partitions: list[TopicPartition]  # the partitions that the transaction has written to, sorted
    start_timestamp: int | None
    last_update_timestamp: int | None
    expires_at: int | None  # the earliest moment, if the id does not change; null: it does not expire in this state
    log_offset: int


class TransactionEvent(NamedTuple):
    """The coordinator's own act on a producer: one of EVENTS."""

    log_offset: int
    log_timestamp: int | None
    transactional_id: str
    event: str
    producer_id: int
    producer_epoch: int  # of the transaction that was open
    start_timestamp: int | None
    timeout_ms: int
    topic_partitions: list[TopicPartition]


EVENTS = ("transaction_timed_out", "producer_fenced")
