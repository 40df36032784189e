"""The saved state of a partition's offsets, as columns: the start of the next replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.columns import (
    I64,
    NEVER,
    OFFSET_RECORDS,
    TEXT,
    Flags,
    JoinedLog,
    Markers,
    next_marker,
    sorted_order,
    starts_of,
)
from kgroups_spark.records.columns import ranks
from kgroups_spark.tables.rows import no_rows, numbers

# Open and ended transactions of an offsets partition, as in the log, whatever the coordinator's state.
#
# A transaction begins with a producer's first transactional record after its last marker and ends with its next marker,
# of any epoch (T25). Producer ids without the transactional bit open none (T28). Transactions cross groups: each fold
# returns its part of them, and `combined` adds the parts up.


_NUMBERS = ("producer_id", "end", "start_offset", "open_since", "producer_epoch", "epoch_at", "offset_count")


@dataclass(frozen=True, eq=False)
class Transactions:
    """k transactions, or parts of them, and the groups whose offsets were in them.

    producer_id, end     the key; `end` is the log offset of its marker, NEVER: it is open
    start_offset         its first record
    open_since           log time of that record in epoch ms, -1: it has none
    producer_epoch       of its first offset commit, which is at `epoch_at`; -1: unknown (history keeps none for group
                         records)
    offset_count         number of its values
    transaction, group_id    distinct pairs: index of the transaction, and the group
    """

    producer_id: I64
    end: I64
    start_offset: I64
    open_since: I64
    producer_epoch: I64
    epoch_at: I64
    offset_count: I64
    transaction: I64
    group_id: pa.Array

    def __len__(self) -> int:
        return len(self.producer_id)

    def groups(self) -> pa.Array:
        """The groups of each transaction, sorted by name (a list array)."""
        codes = self.group_id.dictionary_encode()
        order = np.lexsort((ranks(codes), self.transaction))
        ends = np.searchsorted(self.transaction[order], np.arange(len(self) + 1))
        names = codes.take(pa.array(order)).cast(pa.string())
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names)

    def only(self, which: Flags) -> Transactions:
        number = np.cumsum(which) - 1
        pairs = np.flatnonzero(which[self.transaction])
        numbers = {name: getattr(self, name)[which] for name in _NUMBERS}
        names = self.group_id.take(pa.array(pairs))
        return Transactions(**numbers, transaction=number[self.transaction[pairs]], group_id=names)


class TransactionalRecords(NamedTuple):
    """Records with the transactional bit, of any type, in any order. Times in ms, -1 for none; `producer_epoch` -1: not
    known. `is_value`: the record commits an offset of the group (tombstones and other types do not)."""

    log_offset: I64
    log_timestamp: I64
    producer_id: I64
    producer_epoch: I64
    is_value: Flags
    group_id: pa.Array


def transactions_of(records: TransactionalRecords, markers: Markers) -> Transactions:
    """The transactions that the records belong to.

    @10 value of g by 7, @11 value of h by 7, @12 COMMIT of 7, @13 tombstone of g in a transaction of 7
        ->  producer_id [7, 7], end [12, NEVER], start_offset [10, 13], offset_count [2, 0], groups [[g, h], []]
    """
    values = np.flatnonzero(records.is_value)
    each = Transactions(
        records.producer_id,
        ends_of(records.producer_id, records.log_offset, markers),
        records.log_offset,
        records.log_timestamp,
        records.producer_epoch,
        np.where(records.producer_epoch == -1, NEVER, records.log_offset),
        records.is_value.astype(np.int64),
        values,
        records.group_id.take(pa.array(values)),
    )
    return combined([each], markers.log)


def combined(parts: list[Transactions], log: JoinedLog) -> Transactions:
    """The parts added up: one row a transaction. Open ones come first, by offsets partition and producer, then the
    others by marker."""
    producer_id, end, start, since, epoch, epoch_at, count = (
        np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS
    )
    if not len(producer_id):
        nothing = producer_id
        return Transactions(nothing, end, start, since, epoch, epoch_at, count, nothing, pa.array([], pa.string()))
    # A marker ends one transaction, and a producer has at most one open transaction in each offsets partition.
    key, is_open = end.copy(), end == NEVER
    producers, number = np.unique(producer_id[is_open], return_inverse=True)
    key[is_open] = log.number_at(start[is_open]) * len(producers) + number - NEVER
    order = sorted_order(key)
    is_start = starts_of(key[order])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_start) - 1
    first = _least_of_each(order, is_start, start)
    # Its epoch is that of its first offset commit, which may be after other records.
    by_epoch = _least_of_each(order, is_start, epoch_at)
    base = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    pairs = np.concatenate([part.transaction + at for part, at in zip(parts, base, strict=True)])
    names = [part.group_id.dictionary_encode() for part in parts]
    group_id = pa.chunked_array(names, TEXT).unify_dictionaries().combine_chunks()
    key = number[pairs] * max(len(group_id.dictionary), 1) + group_id.indices.to_numpy()
    some = np.unique(key, return_index=True)[1]
    return Transactions(
        producer_id[first],
        end[first],
        start[first],
        since[first],
        epoch[by_epoch],
        epoch_at[by_epoch],
        np.add.reduceat(count[order], np.flatnonzero(is_start)),
        number[pairs][some],
        group_id.take(pa.array(some)),
    )


def _least_of_each(order: I64, is_start: Flags, values: I64) -> I64:
    """The row with the least value in each run of rows in order."""
    starts = np.flatnonzero(is_start)
    least = np.minimum.reduceat(values[order], starts)
    is_least = values[order] == np.repeat(least, np.diff(np.append(starts, len(order))))
    found = np.flatnonzero(is_least)
    run = np.cumsum(is_start)[found]
    return order[found[starts_of(run)]]


def ends_of(producer_id: I64, log_offset: I64, markers: Markers) -> I64:
    """For each transactional record the log offset of the marker that ended its transaction; NEVER: it is open.

    Markers that are neither COMMIT nor ABORT end no transaction.
    """
    ends = markers.ends()
    marker = next_marker(producer_id, log_offset, ends)
    return np.where(marker >= 0, ends.log_offset[marker], NEVER) if len(ends) else np.full(len(marker), NEVER)


# Removed offsets that are remembered until their next commit, the oldest first.
REMOVED_OFFSETS = pa.schema(
    [
        ("group_id", TEXT),
        ("topic", TEXT),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),  # null: the log did not have it
        ("topic_id", TEXT),  # null: none
        ("log_offset", pa.int64()),  # of the tombstone
    ]
)
# 3.8 to 4.0.0: producers that are noted for a group (KAFKA-19164), with the number of its offsets partition in the log.
NOTED_PRODUCERS = pa.schema([("number", pa.int64()), ("group_id", pa.string()), ("producer_id", pa.int64())])
OPEN_TRANSACTIONS = pa.schema(
    [
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),  # null: not known
        ("transaction_start_offset", pa.int64()),
        ("open_since", pa.int64()),  # ms; null: the record has no time
        ("offset_count", pa.int64()),
        ("group_ids", pa.list_(pa.string())),
    ]
)


class OffsetState(NamedTuple):
    """The state of the offsets of a log at its end.

    offsets       committed offsets as plain records, pending ones as their transactional records (OFFSET_RECORDS)
    removed       offsets that are remembered as removed (REMOVED_OFFSETS)
    noted         producers noted for groups (NOTED_PRODUCERS)
    transactions  open transactions (OPEN_TRANSACTIONS)
    """

    offsets: pa.Table
    removed: pa.Table
    noted: pa.Table
    transactions: pa.Table

    @classmethod
    def empty(cls) -> OffsetState:
        schemas = (OFFSET_RECORDS, REMOVED_OFFSETS, NOTED_PRODUCERS, OPEN_TRANSACTIONS)
        return cls(*(no_rows(schema) for schema in schemas))


def open_rows(transactions: Transactions) -> pa.Table:
    some = transactions.only(transactions.end == NEVER)
    columns = [
        some.producer_id,
        pa.array(some.producer_epoch.astype(np.int16), mask=some.producer_epoch == -1),
        some.start_offset,
        pa.array(some.open_since, mask=some.open_since == -1),
        some.offset_count,
        some.groups(),
    ]
    return pa.table([pa.array(each) for each in columns], schema=OPEN_TRANSACTIONS)


def open_of_rows(rows: pa.Table, markers: Markers) -> Transactions:
    """Rows of OPEN_TRANSACTIONS as transactions, with the markers that have ended them since."""
    epoch, start = numbers(rows["producer_epoch"], none=-1), numbers(rows["transaction_start_offset"])
    group_ids = rows.column("group_ids").combine_chunks()
    lengths = pc.list_value_length(group_ids).to_numpy(zero_copy_only=False)
    return Transactions(
        numbers(rows["producer_id"]),
        ends_of(numbers(rows["producer_id"]), start, markers),
        start,
        numbers(rows["open_since"], none=-1),
        epoch,
        np.where(epoch == -1, NEVER, start),
        numbers(rows["offset_count"]),
        np.repeat(np.arange(len(rows)), lengths),
        group_ids.flatten(),
    )
