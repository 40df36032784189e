"""Moves of committed offsets: backwards, to another topic id, or forward while the group had no members.

The fold already has each slot's previous offset. Nearly all commits move forward. Such a move is an event only if the
group has members at other times but had none then: `climbs` needs the quiet times of these groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.effects import Effects, Fold
from kgroups_spark.offsets.numbers import I64, Flags, Markers, latest_at
from kgroups_spark.offsets.records import TEXT, codes, column, flags
from kgroups_spark.tables import arrays
from kgroups_spark.tables.rows import by_name, no_rows

# An effect with its place in the log and the slot's offset from there on.
PLACED = pa.schema(
    [
        ("slot", pa.int64()),  # number of the slot among those of all ranges
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),  # of the record or the marker, ms; null: none
        ("commit_timestamp", pa.int64()),  # ms; null: none
        ("group_id", TEXT),
        ("topic", TEXT),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("topic_id", TEXT),
        ("by_marker", pa.bool_()),
    ]
)
# Columns of group_events that depend on offsets alone. `cause` null: it depends on the group's members at that time.
MOVES = pa.schema(
    [
        *(PLACED.field(name) for name in ("slot", "log_offset", "log_timestamp")),
        ("event_timestamp", pa.int64()),  # ms; null: none
        *(PLACED.field(name) for name in ("group_id", "topic", "partition")),
        ("event", pa.string()),
        ("offset_before", pa.int64()),
        ("offset_after", pa.int64()),
        ("value_before", pa.string()),
        ("value_after", pa.string()),
        ("cause", pa.string()),
        ("by_marker", pa.bool_()),
    ]
)


@dataclass(frozen=True, eq=False)
class Moves:
    """Effects that moved an offset, by slot and place, and the effect before each of them."""

    at: I64
    before: I64

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, eq=False)
class Quiet:
    """Times without members of groups that have members at other times: from after the record at `since`, which emptied
    the group, to the next record about it (NEVER: none yet). Rows by group (number in Slots) and `since`."""

    group: I64
    since: I64
    until: I64


def moves(folded: Fold, records: pa.Table) -> Moves:
    """Moves backwards, and moves to another topic id. `records`: the folded records (OFFSET_RECORDS).

    Offsets of a slot as they took effect: 5, 9, 7, 7, 8 (of another topic id than 7)  ->  at the first 7 and at 8
    """
    effects = folded.effects
    at = np.flatnonzero(effects.takes_effect & (effects.before >= 0))
    before = effects.before[at]
    offsets = column(records, "committed_offset")[effects.row]
    found = (offsets[at] < offsets[before]) & (offsets[before] >= 0) | _is_other_topic(folded, records, at)
    return Moves(at[found], before[found])


def climbs(folded: Fold, records: pa.Table, quiet: Quiet) -> Moves:
    """Moves forward in quiet times, outside of transactions and with the same topic id, as an admin reset makes
    them."""
    effects, slots = folded.effects, folded.commits.slots
    if not len(quiet.group) or not len(effects):
        return Moves(np.zeros(0, np.int64), np.zeros(0, np.int64))
    has_quiet = np.zeros(len(slots.groups), np.bool_)
    has_quiet[quiet.group] = True
    group = slots.group[folded.commits.slot[effects.row]]
    at = np.flatnonzero(has_quiet[group] & effects.takes_effect & ~effects.by_marker & (effects.before >= 0))
    offsets = column(records, "committed_offset")
    was = offsets[effects.row[effects.before[at]]]
    at = at[(offsets[effects.row[at]] > was) & (was >= 0)]
    at = at[_is_within(quiet, group[at], effects.place[at])]
    at = at[~_is_other_topic(folded, records, at)]
    return Moves(at, effects.before[at])


def births(effects: Effects) -> I64:
    """Effects that gave a slot a committed offset where it had none."""
    return np.flatnonzero(effects.takes_effect & (effects.before < 0))


def placed_rows(folded: Fold, records: pa.Table, at: I64, markers: Markers, first_slot: int) -> pa.Table:
    """Effects as rows of PLACED. `first_slot`: number of the fold's first slot among those of all ranges."""
    if not len(at):
        return no_rows(PLACED)
    effects = folded.effects
    rows = records.take(pa.array(effects.row[at]))
    place, by_marker = effects.place[at], effects.by_marker[at]
    log_timestamp = column(rows, "log_timestamp", none=-1).copy()
    log_timestamp[by_marker] = markers.log_timestamp[np.searchsorted(markers.log_offset, place[by_marker])]
    columns = {
        "slot": folded.commits.slot[effects.row[at]] + first_slot,
        "log_offset": place,
        "log_timestamp": pa.array(log_timestamp, mask=log_timestamp == -1),
        "by_marker": by_marker,
    }
    return pa.table(by_name(rows) | columns, PLACED)


def move_events(placed: pa.Table, offset_before: pa.Array, topic_id_before: pa.Array, *, restarts: bool) -> pa.Table:
    """Events (MOVES) of effects, given the slot's previous offset; `restarts`: the offset before its removal.

    8 of topic id B after 9 of A  ->  topic_recreated from A to B, offset_rewound from 9 to 8 (cause topic_recreated)
    """
    if not len(placed):
        return no_rows(MOVES)
    was, now = offset_before.to_numpy(), column(placed, "committed_offset")
    ids = topic_id_before.cast(pa.string()), placed.column("topic_id").combine_chunks().cast(pa.string())
    recreated = arrays.flags(pc.not_equal(*ids))
    event = np.where(now < was, "offset_rewound", "offset_skipped")
    if restarts:
        event = np.full(len(now), "offset_restarted")
    # Clients take a negative offset for none, so nothing is rewound to it, or skipped from it.
    event = np.where(now < 0, "offset_unset", event)
    found = np.flatnonzero((was >= 0) & (restarts | (now < was) | ((now > was) & ~recreated)))
    again = np.flatnonzero(recreated)
    texts = tuple(each.take(pa.array(again)) for each in ids)
    return pa.concat_tables(
        [
            _renamed(placed.take(pa.array(again)), *texts),
            _moved(placed.take(pa.array(found)), was[found], event[found], recreated[found]),
        ]
    )


def in_order(events: pa.Table) -> pa.Table:
    """Rows of MOVES in the order of their numbers: by log offset, then slot. A value's topic_recreated comes before its
    other event; a marker's events of one slot come by name."""
    if not len(events):
        return events
    is_renamed = pc.equal(events.column("event"), "topic_recreated").to_numpy()
    rank = is_renamed == flags(events, "by_marker")
    order = np.lexsort((rank, column(events, "slot"), column(events, "log_offset")))
    return events.take(pa.array(order))


def _renamed(placed: pa.Table, before: pa.Array, after: pa.Array) -> pa.Table:
    rows = len(placed)
    fields = {
        "event_timestamp": placed.column("log_timestamp"),
        "event": pa.repeat("topic_recreated", rows),
        "value_before": before,
        "value_after": after,
    }
    return _events(placed, fields)


def _moved(placed: pa.Table, was: I64, event: np.ndarray, recreated: Flags) -> pa.Table:
    by_marker = placed.column("by_marker")
    cause = np.where(recreated, "topic_recreated", np.where(flags(placed, "by_marker"), "transaction", "no_members"))
    is_open = ~recreated & ~flags(placed, "by_marker") & (event != "offset_skipped")
    fields = {
        "event_timestamp": pc.if_else(by_marker, placed.column("log_timestamp"), placed.column("commit_timestamp")),
        "event": pa.array(event.tolist(), pa.string()),
        "offset_before": pa.array(was),
        "offset_after": placed.column("committed_offset"),
        "cause": pa.array(cause.tolist(), pa.string(), mask=is_open),
    }
    return _events(placed, fields)


def _events(placed: pa.Table, fields: dict[str, pa.Array]) -> pa.Table:
    nothing = {field.name: pa.nulls(len(placed), field.type) for field in MOVES}
    return pa.table(nothing | by_name(placed) | fields, MOVES)


def _is_other_topic(folded: Fold, records: pa.Table, at: I64) -> Flags:
    """Whether an effect has another topic id than the value that it replaces; false if one of the two has none."""
    if records.column("topic_id").null_count == len(records):
        return np.zeros(len(at), np.bool_)
    topic_id = codes(records, "topic_id")
    now, was = topic_id[folded.effects.row[at]], topic_id[folded.effects.row[folded.effects.before[at]]]
    return np.asarray((now != was) & (now >= 0) & (was >= 0))


def _is_within(quiet: Quiet, group: I64, place: I64) -> Flags:
    """Whether the place is in a quiet time of the group."""
    at = latest_at(quiet.group, quiet.since, group, place)
    return np.asarray((at >= 0) & (place < quiet.until[at]))
