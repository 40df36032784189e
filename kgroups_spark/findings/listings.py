"""The entries of `__transaction_state` for the producers of open transactions, for Kafka's rule of hanging ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kgroups_spark.messages.coordinator_logs import TRANSACTION_LOG
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.times import to_epoch_ms
from kgroups_spark.transaction_coordinator.hanging import Listings, OpenOnPartition
from kgroups_spark.transaction_coordinator.rows import TopicPartition, TransactionalIdRow

Row = Mapping[str, Any]
# (columns, conditions) -> rows of transactional_ids that meet the conditions.
Ask = Callable[[Sequence[str], Sequence[Condition]], Iterable[Row]]

COLUMNS = (
    "state_partition",
    "transactional_id",
    "producer_id",
    "state",
    "timeout_ms",
    "topic_partitions",
    "log_offset",
)


def listings(
    ask: Ask, producers: Collection[int], read: Collection[int], known_until: datetime | None
) -> Listings | None:
    """The listing of these producers. None: no partition of the log was read.

    `read`: the partitions of `__transaction_state` that were read; `known_until`: the time up to which; None: up to
    now.
    """
    if not read:
        return None
    rows = ask(COLUMNS, [Condition("producer_id", "in", sorted(producers))]) if producers else ()
    return Listings(
        map(_row, rows),
        is_complete=_are_all(read, ask(("state_partition", "transactional_id"), [])),
        known_until=None if known_until is None else to_epoch_ms(known_until),
    )


def _are_all(read: Collection[int], ids: Iterable[Row]) -> bool:
    """Whether these are all partitions of the log: their numbers have no gap, and each id is in the partition that it
    hashes to with so many.

    No record holds the partition count.
    """
    count = len(read)
    if set(read) != set(range(count)):
        return False
    return all(
        TRANSACTION_LOG.partition_of({"transactionalId": row["transactional_id"]}, count) == row["state_partition"]
        for row in ids
    )


def _row(row: Row) -> TransactionalIdRow:
    partitions = [TopicPartition(each["topic"], each["partition"]) for each in row["topic_partitions"] or ()]
    fields: dict[str, Any] = dict.fromkeys(TransactionalIdRow._fields)
    return TransactionalIdRow(**(fields | dict(row) | {"topic_partitions": partitions}))


def open_on_partition(transaction: Row, offsets: Iterable[Row]) -> OpenOnPartition:
    """An open transaction as the rule needs it, from its row of open_transactions and those of pending_offsets.

    The producer's last record on the partition is its last pending offset; without one, its first record.
    """
    times = [transaction["open_since"], *(offset.get("commit_timestamp") for offset in offsets)]
    known = [to_epoch_ms(at) for at in times if at is not None]
    place = TopicPartition("__consumer_offsets", transaction["offsets_partition"])
    return OpenOnPartition(place, transaction["producer_id"], max(known, default=None))
