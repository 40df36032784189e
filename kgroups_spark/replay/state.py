"""The saved state as rows of the internal table `checkpoints`, and back (coordinator/state_entries.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator import state_entries
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.state_entries import MARK, StateRow, loaded_payloads
from kgroups_spark.coordinator.versions import Group
from kgroups_spark.lake.parts import DICTIONARIES
from kgroups_spark.offsets.columns import ALONE, OFFSET_RECORDS, TEXT, GroupKey, JoinedLog, compared
from kgroups_spark.offsets.state import NOTED_PRODUCERS, OPEN_TRANSACTIONS, REMOVED_OFFSETS, OffsetState
from kgroups_spark.tables.rows import by_name, constant, numbers, plain, table_of, where, with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, STATE_OFFSET, TABLES


class ShardGroups(NamedTuple):
    """The groups of an offsets partition. `removed`: log offset of the removal by group, the oldest first."""

    groups: dict[str, Group]
    removed: dict[str, int]


@dataclass(frozen=True, eq=False)
class LogState:
    """The state of a log at its end: its offsets, and the groups of each of its partitions."""

    offsets: OffsetState = field(default_factory=OffsetState.empty)
    shards: Sequence[ShardGroups] = field(default_factory=lambda: [ShardGroups({}, {})])
    log: JoinedLog = ALONE

    @property
    def groups(self) -> dict[str, Group]:
        (shard,) = self.shards
        return shard.groups


# An entry of the saved state: an offset has the columns of STATE_OFFSET, any other entry has a payload.
ENTRIES = pa.schema(
    each.with_type(TEXT) if each.name in DICTIONARIES[CHECKPOINTS] else each
    for each in map(TABLES[CHECKPOINTS].columns.field, ("offsets_partition", *StateRow._fields, *STATE_OFFSET))
)
OFFSET = "offset"
OFFSET_COLUMNS = ("group_id", *state_entries.OFFSET_FIELDS)
# Columns in which older entries, and those of corrections, have -1 for none.
_MINUS_ONE = ("producer_epoch", "commit_timestamp")


def saved(state: LogState) -> pa.Table:
    """Rows of ENTRIES from which `loaded` restores the same state; each partition has MARK among them."""
    log, removed, partitions = state.log, defaultdict[int, list[tuple[Any, ...]]](list), state.log.partitions.tolist()
    of_log = pa.table(log.parted(state.offsets.removed)).select(["offsets_partition", *REMOVED_OFFSETS.names])
    for number, *offset in _tuples(of_log):
        removed[number].append(tuple(offset))
    others = list[tuple[int, StateRow]]()
    for number, (groups, removed_groups) in zip(partitions, state.shards, strict=True):
        rows = [MARK, *(state_entries.group_row(group_id, groups[group_id], []) for group_id in sorted(groups))]
        rows += state_entries.removed_rows(removed[number], removed_groups)
        others += ((number, row) for row in rows)
    for number, producer, transaction in open_transactions(state):
        others.append((number, state_entries.producer_row(producer, transaction, [])))
    for (number, group_id), producers in sorted(noted_producers(state).items()):
        others.append((partitions[number], state_entries.noted_row(group_id, producers)))
    offsets, count = log.parted(state.offsets.offsets), len(state.offsets.offsets)
    columns = offsets | {
        "entry_type": constant(OFFSET, count, TEXT),
        "payload": constant(None, count, pa.string()),
        "record_offset": offsets["log_offset"],
    }
    arrays = [columns[f.name].cast(f.type) for f in ENTRIES]
    return pa.concat_tables([plain_entries(others), pa.table(arrays, schema=ENTRIES)])


def checkpoint_rows(entries: pa.Table, ends: Mapping[int, int], made: Mapping[str, int | str]) -> pa.Table:
    """ENTRIES as rows of `checkpoints`. `ends`: each state's log offset; `made`: see state_entries.made_by."""
    partitions = sorted(ends)
    of_each = np.searchsorted(partitions, numbers(entries["offsets_partition"]))
    at = np.array([ends[number] for number in partitions], np.int64)[of_each]
    return table_of("checkpoints", by_name(entries) | {"log_offset": pa.array(at)}, len(entries), **made)


def open_transactions(state: LogState) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Offsets partition, producer and transaction (as in state_entries.producer_row) of each open transaction."""
    rows = pa.table(state.log.parted(state.offsets.transactions, by="transaction_start_offset"))
    for number, producer, epoch, start, since, count, group_ids in _tuples(
        rows.select(["offsets_partition", *OPEN_TRANSACTIONS.names])
    ):
        yield number, producer, (start, since, -1 if epoch is None else epoch, count, sorted(group_ids))


def noted_producers(state: LogState) -> dict[GroupKey, set[int]]:
    found: dict[GroupKey, set[int]] = {}
    for number, group_id, producer in _tuples(state.offsets.noted):
        found.setdefault((number, group_id), set()).add(producer)
    return found


def offset_fields(offsets: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows of OFFSET_RECORDS as entries: OFFSET_COLUMNS, with -1 for none as in older entries."""
    known = {name: pc.fill_null(offsets.column(name), -1) for name in _MINUS_ONE}
    return _tuples(with_columns(offsets, **known).select(OFFSET_COLUMNS))


def plain_entries(entries: Sequence[tuple[int, tuple[str, str | None, str | None]]]) -> pa.Table:
    """Entries other than offsets (type, group, payload) and their offsets partitions, as ENTRIES."""
    rows = [(number, *entry) for number, entry in entries]
    columns = list(zip(*rows, strict=True)) if rows else [()] * (1 + len(StateRow._fields))
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ENTRIES, strict=False)]
    nothing = [pa.nulls(len(entries), ENTRIES.field(name).type) for name in STATE_OFFSET]
    return pa.table([*arrays, *nothing], schema=ENTRIES)


def loaded(entries: pa.Table, release: Release, log: JoinedLog = ALONE) -> LogState:
    """The state of a log from its entries (ENTRIES, in any order). Rows `topics` are left out, because the table has
    them. States up to format 1 have the offsets in the payloads of their groups and producers."""
    is_offset = compared(entries["entry_type"], OFFSET) == 0
    of_offsets = log.joined(where(entries, is_offset), "record_offset")
    columns = {
        "log_offset": of_offsets["record_offset"],
        "log_timestamp": pa.nulls(len(of_offsets), pa.int64()),  # it is not kept, as no rule needs it
        "offset_delta": pa.nulls(len(of_offsets), pa.int32()),
        "is_transactional": of_offsets["producer_id"].is_valid(),
    }
    arrays = [columns[f.name] if f.name in columns else of_offsets[f.name].cast(f.type) for f in OFFSET_RECORDS]
    others = where(entries, ~is_offset)
    rows = list(map(StateRow, *_lists(others.select(StateRow._fields))))
    shards = [ShardGroups({}, {}) for _ in range(len(log))]
    made: list[tuple[Any, ...]] = []
    producers: list[int | None] = []
    removed: list[tuple[Any, ...]] = []
    noted: list[tuple[int, str, int]] = []
    transactions: list[tuple[Any, ...]] = []
    of_row = log.number_of(others).tolist() if len(log) > 1 else [0] * len(rows)
    for number, row, payload in zip(of_row, rows, loaded_payloads(rows), strict=True):
        group_id, begin = row.group_id or "", int(log.starts[number])
        match row.entry_type:
            case "group":
                if payload["group"] is not None:
                    shards[number].groups[group_id] = state_entries.group_of(release, group_id, payload["group"])
                made += [(begin, group_id, *offset) for offset in payload["offsets"]]
                producers += [None] * len(payload["offsets"])
            case "producer":
                pending, transaction = payload.get("pending") or (), payload.get("transaction")
                made += [(begin, *each) for each in pending]
                producers += [payload["producer_id"]] * len(pending)
                if transaction is not None:
                    start, since, epoch, *rest = transaction
                    epoch = None if epoch == -1 else epoch
                    transactions.append((number, payload["producer_id"], epoch, begin + start, since, *rest))
            case "noted":
                noted += [(number, group_id, producer) for producer in payload["producers"]]
            case "removed":
                removed += [(group_id, *offset, begin + at) for *offset, at in payload["offsets"]]
                removed += [(group_id, *slot, None, None, begin + at) for *slot, at in payload.get("unknown", ())]
                if payload.get("group") is not None:
                    shards[number].removed[group_id] = payload["group"]
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
        _table(OPEN_TRANSACTIONS, [row[1:] for row in sorted(transactions)]),
    )
    by_removal = ((groups, sorted(gone.items(), key=lambda each: (each[1], each[0]))) for groups, gone in shards)
    return LogState(state, [ShardGroups(groups, dict(gone)) for groups, gone in by_removal], log)


def _offset_records(entries: Sequence[Sequence[Any]], producers: Sequence[int | None]) -> pa.Table:
    """Offsets of entries, which follow the start of their partition and their group there, and the producers of pending
    ones -> OFFSET_RECORDS. The log timestamp is not kept, as no rule needs it."""
    starts, *values = zip(*entries, strict=True) if entries else [()] * (1 + len(OFFSET_COLUMNS))
    columns = dict(zip(OFFSET_COLUMNS, values, strict=True))
    arrays = {name: _array(OFFSET_RECORDS.field(name).type, values) for name, values in columns.items()}
    arrays["log_offset"] = pc.add(arrays["log_offset"], pa.array(starts, pa.int64()))
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
    return [column.to_pylist() for column in plain(rows).columns]


def _table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([_array(f.type, values) for values, f in zip(columns, schema, strict=True)], schema=schema)


def _array(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)
