"""Checkpoints of layouts up to 10: one table for the states of nights, another one for all other checkpoints.

The states of nights are not taken over: the next audit rebuilds them from history.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import MARK
from kgroups_spark.tables.internal import KEEP, REREAD
from kgroups_spark.tables.rows import as_table, by_name
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

LAST_LAYOUT = 10
WAITING = "waiting"
OLDER_STATES, OLDER_CHECKPOINTS = "coordinator_state", "state_corrections"
# Values of its column `correction`: another log is reduced to here, __consumer_offsets is, a group that is not
# corrected yet.
_OF_LOG, _KEPT, _WAIT = "state_baseline", "baseline", "wait"


def as_checkpoints(older: pa.Table) -> pa.Table:
    """Rows of OLDER_CHECKPOINTS as rows of checkpoints; columns that they lack are null."""
    if "correction" not in older.column_names:  # of layout 1, without rows
        return arrow_schema(CHECKPOINTS).empty_table()
    correction, entry_type = older["correction"], older["entry_type"]
    is_of_log = pc.equal(correction, _OF_LOG)
    entry_type = pc.if_else(pc.equal(correction, _WAIT), WAITING, entry_type)
    columns = {
        **by_name(older),
        "log": pc.if_else(is_of_log, older["entry_type"], None),
        "reason": pc.if_else(pc.is_in(correction, pa.array([_OF_LOG, _KEPT])), KEEP, REREAD),
        "entry_type": pc.if_else(is_of_log, MARK.entry_type, entry_type),
        "payload": pc.if_else(is_of_log, MARK.payload, older["payload"]),
    }
    nothing = pa.nulls(len(older))
    arrays = [columns.get(field.name, nothing).cast(field.type) for field in arrow_schema(CHECKPOINTS)]
    return pa.table(arrays, schema=arrow_schema(CHECKPOINTS))


def checkpoint_batches(older: Iterator[pa.RecordBatch], newest: int | None = None) -> Iterator[pa.RecordBatch]:
    """The same for mapInArrow, for audits up to `newest` (None: all audits)."""
    for batch in older:
        rows = as_checkpoints(as_table(batch))
        yield from (rows if newest is None else rows.filter(pc.field("audit_id") <= newest)).to_batches()
