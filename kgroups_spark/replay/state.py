"""The saved state as rows of the internal table `checkpoints`, and back (coordinator/state_entries.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator import state_entries
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.state_entries import MARK, StateRow, loaded_payloads
from kgroups_spark.coordinator.versions import Group
from kgroups_spark.offsets.columns import OFFSET_RECORDS, as_type
from kgroups_spark.offsets.state import NOTED_PRODUCERS, OPEN_TRANSACTIONS, REMOVED_OFFSETS, OffsetState
from kgroups_spark.tables.definitions import CHECKPOINTS, NIGHT, STATE_OFFSET
from kgroups_spark.tables.rows import by_name, constant, table_of, where, with_columns

# The saved state of an offsets partition: a replay begins with one and ends with the next.


@dataclass(frozen=True, eq=False)
class ShardState:
    """The state of an offsets partition at a log offset.

    removed_groups  groups known to be removed -> the log offset of their removal, the oldest first
    """

    offsets: OffsetState = field(default_factory=OffsetState.empty)
    groups: dict[str, Group] = field(default_factory=dict)
    removed_groups: dict[str, int] = field(default_factory=dict)


# An entry of the saved state: an offset has the columns of STATE_OFFSET, any other entry has a payload.
ENTRIES = pa.schema([CHECKPOINTS.field(name) for name in (*StateRow._fields, *(f.name for f in STATE_OFFSET))])
OFFSET = "offset"
OFFSET_COLUMNS = ("group_id", *state_entries.OFFSET_FIELDS)
# Columns in which older entries, and those of corrections, have -1 for none.
_MINUS_ONE = ("producer_epoch", "commit_timestamp")


def saved(state: ShardState) -> pa.Table:
    """Rows of ENTRIES from which `loaded` restores the same state; MARK is among them."""
    others = [MARK]
    for group_id in sorted(state.groups):
        others.append(state_entries.group_row(group_id, state.groups[group_id], []))
    for producer, transaction in open_transactions(state.offsets).items():
        others.append(state_entries.producer_row(producer, transaction, []))
    for group_id, producers in sorted(noted_producers(state.offsets).items()):
        others.append(state_entries.noted_row(group_id, producers))
    others += state_entries.removed_rows(_tuples(state.offsets.removed), state.removed_groups)
    offsets = state.offsets.offsets
    columns = {
        "entry_type": constant(OFFSET, len(offsets), pa.string()),
        "payload": constant(None, len(offsets), pa.string()),
        "record_offset": offsets["log_offset"],
    }
    arrays = [as_type(columns[f.name] if f.name in columns else offsets[f.name], f.type) for f in ENTRIES]
    return pa.concat_tables([plain_entries(others), pa.table(arrays, schema=ENTRIES)])


def checkpoint_rows(
    entries: pa.Table, offsets_partition: int, log_offset: int, made: Mapping[str, int | str]
) -> pa.Table:
    """Entries (ENTRIES) as rows of `checkpoints`, at a log offset. `made`: see state_entries.made_by."""
    constants = {"offsets_partition": offsets_partition, "log_offset": log_offset, **made}
    return table_of("checkpoints", by_name(entries), len(entries), **constants)


def open_transactions(offsets: OffsetState) -> dict[int, tuple[Any, ...]]:
    """The open transactions by producer, as state_entries.producer_row takes them."""
    return {
        producer: (start, since, -1 if epoch is None else epoch, count, sorted(group_ids))
        for producer, epoch, start, since, count, group_ids in _tuples(offsets.transactions)
    }


def noted_producers(offsets: OffsetState) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for group_id, producer in _tuples(offsets.noted):
        found.setdefault(group_id, set()).add(producer)
    return found


def offset_fields(offsets: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows of OFFSET_RECORDS as entries: OFFSET_COLUMNS, with -1 for none as in older entries."""
    known = {name: pc.fill_null(offsets.column(name), -1) for name in _MINUS_ONE}
    return _tuples(with_columns(offsets, **known).select(OFFSET_COLUMNS))


def plain_entries(entries: Sequence[tuple[str, str | None, str | None]]) -> pa.Table:
    """Entries other than offsets (type, group, payload), as ENTRIES."""
    columns = list(zip(*entries, strict=True)) if entries else [()] * len(StateRow._fields)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ENTRIES, strict=False)]
    nothing = [pa.nulls(len(entries), field.type) for field in STATE_OFFSET]
    return pa.table([*arrays, *nothing], schema=ENTRIES)


def entries_of_night(rows: pa.Table, audit_id: int) -> pa.Table:
    """The state that an audit left (ENTRIES), from rows of checkpoints; the same files may hold other audits' rows."""
    is_one = pc.and_(pc.equal(rows.column("audit_id"), audit_id), pc.equal(rows.column("reason"), NIGHT))
    rows = rows if pc.all(is_one).as_py() else rows.filter(is_one)
    return rows.select(ENTRIES.names)


def loaded(entries: pa.Table, release: Release) -> ShardState:
    """The state from its entries (ENTRIES, in any order). Rows `topics` are left out, because the table has them.
    States up to format 1 have the offsets in the payloads of their groups and producers."""
    is_offset = pc.equal(entries.column("entry_type"), OFFSET).to_numpy()
    of_offsets = where(entries, is_offset)
    columns = {
        "log_offset": of_offsets["record_offset"],
        "log_timestamp": pa.nulls(len(of_offsets), pa.int64()),  # it is not kept, as no rule needs it
        "offset_delta": pa.nulls(len(of_offsets), pa.int32()),
        "is_transactional": of_offsets["producer_id"].is_valid(),
    }
    arrays = [columns[f.name] if f.name in columns else as_type(of_offsets[f.name], f.type) for f in OFFSET_RECORDS]
    rows = list(map(StateRow, *_lists(where(entries, ~is_offset).select(StateRow._fields))))
    groups: dict[str, Group] = {}
    made: list[tuple[Any, ...]] = []
    producers: list[int | None] = []
    removed: list[tuple[Any, ...]] = []
    removed_groups: dict[str, int] = {}
    noted: list[tuple[str, int]] = []
    transactions: list[tuple[Any, ...]] = []
    for row, payload in zip(rows, loaded_payloads(rows), strict=True):
        group_id = row.group_id or ""
        match row.entry_type:
            case "group":
                if payload["group"] is not None:
                    groups[group_id] = state_entries.group_of(release, group_id, payload["group"])
                made += [(group_id, *offset) for offset in payload["offsets"]]
                producers += [None] * len(payload["offsets"])
            case "producer":
                pending, transaction = payload.get("pending") or (), payload.get("transaction")
                made += pending
                producers += [payload["producer_id"]] * len(pending)
                if transaction is not None:
                    start, since, epoch, *rest = transaction
                    transactions.append((payload["producer_id"], None if epoch == -1 else epoch, start, since, *rest))
            case "noted":
                noted += [(group_id, producer) for producer in payload["producers"]]
            case "removed":
                removed += [(group_id, *offset) for offset in payload["offsets"]]
                removed += [(group_id, *slot, None, None, at) for *slot, at in payload.get("unknown", ())]
                if payload.get("group") is not None:
                    removed_groups[group_id] = payload["group"]
            case "topics":
                pass
            case _:
                raise ValueError(f"a saved state has a row of type {row.entry_type!r}, which is unknown")
    # In order of removal, because the oldest removals are forgotten first.
    removed.sort(key=itemgetter(-1))
    state = OffsetState(
        pa.concat_tables([pa.table(arrays, schema=OFFSET_RECORDS), _offset_records(made, producers)]),
        _table(REMOVED_OFFSETS, removed),
        _table(NOTED_PRODUCERS, sorted(noted)),
        _table(OPEN_TRANSACTIONS, sorted(transactions)),
    )
    return ShardState(state, groups, dict(sorted(removed_groups.items(), key=lambda each: (each[1], each[0]))))


def _offset_records(entries: Sequence[Sequence[Any]], producers: Sequence[int | None]) -> pa.Table:
    """Offsets of entries, which follow their group there, and the producers of pending ones -> OFFSET_RECORDS. The log
    timestamp is not kept, as no rule needs it."""
    values = zip(*entries, strict=True) if entries else [()] * len(OFFSET_COLUMNS)
    columns = dict(zip(OFFSET_COLUMNS, values, strict=True))
    arrays = {name: _array(OFFSET_RECORDS.field(name).type, values) for name, values in columns.items()}
    for name in _MINUS_ONE:
        is_none = pc.equal(arrays[name], -1)
        arrays[name] = pc.if_else(is_none, pa.scalar(None, arrays[name].type), arrays[name])
    arrays["producer_id"] = pa.array(producers, pa.int64())
    arrays["is_transactional"] = arrays["producer_id"].is_valid()
    for name in ("log_timestamp", "offset_delta"):
        arrays[name] = pa.nulls(len(entries), OFFSET_RECORDS.field(name).type)
    return pa.table(arrays, OFFSET_RECORDS)


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*_lists(rows), strict=True)


def _lists(rows: pa.Table) -> list[list[Any]]:
    """The columns as lists. Dictionaries are cast to plain texts first, which is three times as fast."""
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in rows.schema]
    return [column.cast(kind).to_pylist() for column, kind in zip(rows.columns, types, strict=True)]


def _table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([_array(f.type, values) for values, f in zip(columns, schema, strict=True)], schema=schema)


def _array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)
