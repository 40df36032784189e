"""Rows of the lake's tables from a replay of offsets, with the columns of tables/current.py and tables/history.py.

`audit_id` and `offsets_partition` are the same in all rows. A time outside TIMESTAMP's range becomes the nearest one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.replay_failure import unknown_version
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.offsets.numbers import NEITHER, Markers
from kgroups_spark.offsets.records import column
from kgroups_spark.offsets.replay import ReplayedOffsets
from kgroups_spark.offsets.transactions import Transactions
from kgroups_spark.tables.rows import by_name, table_of, where


def committed_rows(replayed: ReplayedOffsets, groups: Collection[str], **constants: Any) -> pa.Table:
    """Rows of `committed_offsets`, by slot. `groups`: the existing ones; offsets of other groups are orphans."""
    rows = where(replayed.state.offsets, ~replayed.is_pending)
    is_known = pc.is_in(rows.column("group_id").cast(pa.string()), pa.array(list(groups), pa.string()))
    return _rows("committed_offsets", rows, {"is_orphan": pc.invert(is_known)}, constants)


def pending_rows(replayed: ReplayedOffsets, **constants: Any) -> pa.Table:
    """Rows of `pending_offsets`, by slot and producer. transactional_id is null: the offsets log does not name it."""
    rows = where(replayed.state.offsets, replayed.is_pending)
    open_ = replayed.state.transactions
    at = pc.index_in(rows.column("producer_id"), open_.column("producer_id").combine_chunks())
    of_transaction = open_.select(["transaction_start_offset", "open_since"]).take(at)
    return _rows("pending_offsets", rows, by_name(of_transaction), constants | {"transactional_id": None})


def open_transaction_rows(replayed: ReplayedOffsets, **constants: Any) -> pa.Table:
    return _rows("open_transactions", replayed.state.transactions, {}, constants | {"transactional_id": None})


def failure_rows(replayed: ReplayedOffsets, **constants: Any) -> pa.Table:
    """Rows of `quarantine`: values of a version at which the release's load fails."""
    rows = replayed.unreadable
    record_type, version = column(rows, "record_type").tolist(), column(rows, "value_version").tolist()
    details = list(map(unknown_version, record_type, version))
    names = [CONSUMER_OFFSETS[each].name for each in record_type]
    more = {"record_name": pa.array(names, pa.string()), "detail": pa.array(details, pa.string())}
    fixed = {"record_count": 0, "reason": "load_would_fail", "coordinator_fails": True, "is_transactional": None}
    return _rows("quarantine", rows, more, constants | fixed)


def ended_columns(transactions: Transactions, markers: Markers) -> pa.Table:
    """transaction_start_offset, offset_count and group_ids of `transaction_markers`, a row for each marker."""
    at = pc.index_in(pa.array(markers.log_offset), pa.array(transactions.end))
    count = pc.fill_null(pa.array(transactions.offset_count).take(at), 0).cast(pa.int32())
    nothing = pa.array([[]], pa.list_(pa.string()))
    is_neither = pa.array(markers.outcome == NEITHER)
    groups = pa.concat_arrays([transactions.groups(), nothing]).take(pc.fill_null(at, len(transactions)))
    return pa.table(
        {
            "transaction_start_offset": pa.array(transactions.start_offset).take(at),
            "offset_count": pc.if_else(is_neither, pa.scalar(None, pa.int32()), count),
            "group_ids": groups.take(pa.array(np.arange(len(groups)), mask=markers.outcome == NEITHER)),
        }
    )


def _rows(name: str, rows: pa.Table, more: dict[str, Any], constants: dict[str, Any]) -> pa.Table:
    return table_of(name, by_name(rows) | more, len(rows), **constants)
