"""The input of the replay of offsets from the history tables: rows of one offsets partition after its saved state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.numbers import ABORT, COMMIT, I64, NEITHER, Markers
from kgroups_spark.offsets.records import TEXT, column, milliseconds
from kgroups_spark.offsets.transactions import TransactionalRecords
from kgroups_spark.tables.arrays import flags, numbers


def markers_of(transaction_markers: pa.Table) -> Markers:
    """Rows of `transaction_markers`, which are sorted by log offset, as Markers."""
    outcome = transaction_markers.column("outcome").cast(pa.string())
    is_named = [flags(pc.equal(outcome, name)) for name in ("committed", "aborted")]
    return Markers(
        column(transaction_markers, "log_offset"),
        _times(transaction_markers),
        column(transaction_markers, "producer_id", none=-1),
        np.select(is_named, [COMMIT, ABORT], default=NEITHER),
    )


def other_records(group_records: pa.Table, quarantine: pa.Table) -> TransactionalRecords:
    """Transactional rows of `group_records` and `quarantine`.

    Rows of quarantine without is_transactional are whole batches: those with a producer count as transactional, because
    only transactions have one.
    """
    names = ["log_offset", "log_timestamp", "producer_id"]
    reason, producer_id = quarantine.column("reason").cast(pa.string()), quarantine.column("producer_id")
    is_record = pc.and_(pc.not_equal(reason, "corrupt_batch"), pc.greater(quarantine.column("record_count"), 0))
    is_transactional = pc.coalesce(quarantine.column("is_transactional"), producer_id.is_valid())
    is_record = pc.and_(is_record, is_transactional)
    rows = pa.concat_tables(
        [
            group_records.filter(group_records.column("is_transactional")).select(names),
            quarantine.filter(is_record).select(names),
        ]
    )
    return TransactionalRecords(
        column(rows, "log_offset"),
        _times(rows),
        column(rows, "producer_id", none=-1),
        np.full(len(rows), -1),
        np.zeros(len(rows), np.bool_),
        pa.nulls(len(rows), TEXT),
    )


def group_ends(group_records: pa.Table) -> list[tuple[str, int]]:
    """(group id, log offset) of tombstones among rows of `group_records`."""
    rows = group_records.filter(group_records.column("value_version").is_null())
    return list(zip(rows.column("group_id").to_pylist(), rows.column("log_offset").to_pylist(), strict=True))


def _times(rows: pa.Table) -> I64:
    return numbers(milliseconds(rows.column("log_timestamp")), none=-1)
