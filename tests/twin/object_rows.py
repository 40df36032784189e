"""Replay rows, as Arrow, from tables: the input of object_replay.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.columns import milliseconds
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.schemas import arrow_schema
from tests.twin.object_replay import CORRECTION, MARKER, RECORD, REPLAY_ROWS, TOMBSTONE, UNREADABLE, VALUE

Row = dict[str, Any]
TIMES = ("log_timestamp", "commit_timestamp", "expire_timestamp")
# Kafka's -1 where a table has null.
NONE = (*TIMES, "producer_id", "producer_epoch", "leader_epoch")


def replay_rows(tables: Mapping[str, Sequence[pa.Table]]) -> pa.Table:
    """One row for each record in the four tables of history."""
    commits, records, markers, quarantine = (
        pa.concat_tables([arrow_schema(name).empty_table(), *tables.get(name, ())])
        for name in ("offset_commits", "group_records", "transaction_markers", "quarantine")
    )
    kinds = pc.if_else(commits.column("value_version").is_null(), TOMBSTONE, VALUE)
    is_record = pc.and_(
        pc.not_equal(quarantine.column("reason"), "corrupt_batch"), quarantine.column("is_transactional")
    )
    unreadable = quarantine.filter(pc.and_(is_record, pc.greater(quarantine.column("record_count"), 0)))
    return pa.concat_tables(
        [
            _rows(commits, kinds),
            _rows(records.rename_columns({"value": "text"}), RECORD),
            _rows(markers, MARKER),
            _rows(unreadable, UNREADABLE),
        ]
    )


def correction_rows(rows: Sequence[Row]) -> pa.Table:
    """Corrections of a saved state (rows of checkpoints), except those that wait."""
    rows = [row for row in rows if row["reason"] == REREAD]
    names = {"entry_type": "outcome", "payload": "text"}
    kept = ("offsets_partition", "log_offset", "group_id", "entry_type", "payload")
    return _rows(pa.table({names.get(n, n): [row.get(n) for row in rows] for n in kept}), CORRECTION)


def in_log_order(rows: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    """The rows in the order for a replay."""
    table = pa.concat_tables(rows)
    keys = [(name, "ascending") for name in ("offsets_partition", "log_offset", "kind")]
    return table.sort_by(keys).combine_chunks().to_batches()


def _rows(table: pa.Table, kind: int | pa.ChunkedArray) -> pa.Table:
    kinds = pa.repeat(kind, len(table)) if isinstance(kind, int) else kind
    columns = [kinds if f.name == "kind" else _column(table, f) for f in REPLAY_ROWS]
    return pa.table([c.cast(f.type) for c, f in zip(columns, REPLAY_ROWS, strict=True)], schema=REPLAY_ROWS)


def _column(table: pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    values = table.column(field.name)
    if field.name in TIMES:
        values = milliseconds(values)
    return pc.fill_null(values, -1) if field.name in NONE else values
