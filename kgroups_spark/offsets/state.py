"""The saved state of a partition's offsets, as columns: the start of the next replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.numbers import NEVER
from kgroups_spark.offsets.records import OFFSET_RECORDS, TEXT, column
from kgroups_spark.offsets.transactions import Transactions
from kgroups_spark.tables.rows import no_rows

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
# 3.8 to 4.0.0: producers that are noted for a group (KAFKA-19164).
NOTED_PRODUCERS = pa.schema([("group_id", pa.string()), ("producer_id", pa.int64())])
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


@dataclass(frozen=True, eq=False)
class OffsetState:
    """The state of the offsets of an offsets partition at a place in its log.

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
    """The open transactions as rows of OPEN_TRANSACTIONS."""
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


def open_of_rows(rows: pa.Table) -> Transactions:
    """Rows of OPEN_TRANSACTIONS as transactions."""
    epoch, start = column(rows, "producer_epoch", none=-1), column(rows, "transaction_start_offset")
    group_ids = rows.column("group_ids").combine_chunks()
    lengths = pc.list_value_length(group_ids).to_numpy(zero_copy_only=False)
    return Transactions(
        column(rows, "producer_id"),
        np.full(len(rows), NEVER),
        start,
        column(rows, "open_since", none=-1),
        epoch,
        np.where(epoch == -1, NEVER, start),
        column(rows, "offset_count"),
        np.repeat(np.arange(len(rows)), lengths),
        group_ids.flatten(),
    )
