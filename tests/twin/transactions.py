"""The open transactions of an offsets partition, as in the log, whatever the coordinator's state.

A transaction begins with a producer's first transactional record after its last marker and ends with its next marker,
of any epoch (T25). Producer ids without the transactional bit open none (T28). An open transaction holds back the last
stable offset and the cleaner, even if tombstones have removed all its offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.twin.shard_rows import OpenTransactionRow


class EndedTransaction(NamedTuple):
    """The transaction that a marker ended. `transaction_start_offset` None: no transactional record of the producer
    before it."""

    transaction_start_offset: int | None
    offset_count: int
    group_ids: list[str]


class OpenTransaction:
    """A transaction without its marker. `offset_count` counts the values written in it, not the slots."""

    __slots__ = ("group_ids", "offset_count", "open_since", "producer_epoch", "transaction_start_offset")

    def __init__(self, transaction_start_offset: int, open_since: int | None, producer_epoch: int) -> None:
        self.transaction_start_offset = transaction_start_offset
        self.open_since = open_since
        self.producer_epoch = producer_epoch
        self.offset_count = 0
        self.group_ids: set[str] = set()


class OpenTransactions:
    """Open transactions by producer id."""

    def __init__(self) -> None:
        self.by_producer: dict[int, OpenTransaction] = {}

    def record(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, producer_epoch: int
    ) -> OpenTransaction:
        """The transaction of a transactional record; the record begins a new one if none is open.

        Its epoch is that of its first offset commit: history keeps no epoch of other records, which pass -1.
        """
        transaction = self.by_producer.get(producer_id)
        if transaction is None:
            transaction = OpenTransaction(log_offset, log_timestamp, producer_epoch)
            self.by_producer[producer_id] = transaction
        elif transaction.producer_epoch == -1:
            transaction.producer_epoch = producer_epoch
        return transaction

    def value(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, producer_epoch: int, group_id: str
    ) -> None:
        """The same for the value of an offset commit."""
        transaction = self.record(log_offset, log_timestamp, producer_id, producer_epoch)
        transaction.offset_count += 1
        transaction.group_ids.add(group_id)

    def end(self, producer_id: int) -> EndedTransaction:
        transaction = self.by_producer.pop(producer_id, None)
        if transaction is None:
            return EndedTransaction(None, 0, [])
        return EndedTransaction(
            transaction.transaction_start_offset, transaction.offset_count, sorted(transaction.group_ids)
        )

    def rows(self, offsets_partition: int) -> Iterator[OpenTransactionRow]:
        for producer_id, transaction in sorted(self.by_producer.items()):
            yield OpenTransactionRow(
                offsets_partition,
                producer_id,
                None if transaction.producer_epoch == -1 else transaction.producer_epoch,
                transaction.transaction_start_offset,
                transaction.open_since,
                transaction.offset_count,
                sorted(transaction.group_ids),
                None,
            )
