"""Which value takes effect at which log offset, and which value it replaces, as in the coordinator's maps.

A plain value takes effect at its own log offset. A transactional value takes effect at its producer's COMMIT, unless a
record with a greater log offset has committed the slot by then (T19, T20; 3.7 does not check that). A tombstone removes
the committed offset; in Scala a tombstone in a transaction affects only that transaction (T22).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.columns import (
    COMMIT,
    I64,
    NEVER,
    TEXT,
    Commits,
    Flags,
    Markers,
    Places,
    lasts_of,
    latest_at,
    next_marker,
    sorted_order,
    starts_of,
)
from kgroups_spark.tables.rows import by_name, flags, no_rows, numbers


@dataclass(frozen=True, eq=False)
class Pending:
    """k values that were pending, by slot and log offset, with the end of their transaction and their outcome.

    row          number of the record among the commits
    end          log offset of the producer's next marker; NEVER: it has not come
    is_commit    that marker is a COMMIT
    dropped_at   log offset of the tombstone that removed the value before `end`; NEVER: none did
    is_last      no later value of the same slot and transaction replaced it
    is_first     no earlier value of the same slot and transaction was pending until `until`
    """

    row: I64
    end: I64
    is_commit: Flags
    dropped_at: I64
    is_last: Flags
    is_first: Flags

    def __len__(self) -> int:
        return len(self.row)

    @property
    def until(self) -> I64:
        """The log offset at which it stopped being pending; NEVER: it still is."""
        return np.minimum(self.end, self.dropped_at)

    @property
    def survives(self) -> Flags:
        """Whether it was still pending at its marker."""
        return np.asarray((self.end < NEVER) & (self.dropped_at == NEVER) & self.is_last)

    @property
    def is_open(self) -> Flags:
        """Whether it is pending at the end of the log."""
        return np.asarray((self.end == NEVER) & (self.dropped_at == NEVER) & self.is_last)


def pending_values(commits: Commits, by_record: I64, markers: Markers, release: Release) -> Pending:
    """The values that were pending, and how that ended. `by_record`: the commits by slot and log offset.

    One slot, producer 7, release 4.3:    @10 value  @11 value  @12 COMMIT  @13 value  @14 tombstone  @15 value

        row of @   end   dropped_at  is_last  is_first
        10         12    NEVER       False    True      a later value of the transaction took its place
        11         12    NEVER       True     False     it takes effect at 12
        13         NEVER 14          False    True      dropped: the tombstone removes pending values, too (T21)
        15         NEVER NEVER       True     True      still open
    """
    row = by_record[commits.waits[by_record]]
    if not release.unknown_marker_ends_transaction:
        markers = markers.ends()
    marker = next_marker(commits.producer_id[row], commits.log_offset[row], markers)
    if len(markers):
        end = np.where(marker >= 0, markers.log_offset[marker], NEVER)
        is_commit = (marker >= 0) & (markers.outcome[marker] == COMMIT)
    else:
        end, is_commit = np.full(len(row), NEVER), np.zeros(len(row), np.bool_)
    dropped_at = _dropped_at(commits, row, end, release) if len(row) else end
    # A transaction is its marker, or its producer if it is open.
    transaction, is_open = marker.copy(), marker < 0
    producers, number = np.unique(commits.producer_id[row[is_open]], return_inverse=True)
    transaction[is_open] = len(markers) + number
    slot = commits.slot[row]
    order = sorted_order(slot * (len(markers) + len(producers)) + transaction)
    is_last, is_first = np.empty(len(row), np.bool_), np.empty(len(row), np.bool_)
    is_last[order] = lasts_of(slot[order], transaction[order])
    is_first[order] = starts_of(slot[order], transaction[order], dropped_at[order])
    return Pending(row, end, is_commit, dropped_at, is_last, is_first)


def pending_at(pending: Pending, commits: Commits, slot: I64, log_offset: I64) -> Flags:
    """Whether any producer had a pending value of the slot just before the log offset."""
    if not len(pending) or not len(slot):
        return np.zeros(len(slot), np.bool_)
    is_asked = np.zeros(len(commits.slots), np.bool_)
    is_asked[slot] = True
    some = pending.is_first & is_asked[commits.slot[pending.row]]
    own, begin, until = commits.slot[pending.row[some]], commits.log_offset[pending.row[some]], pending.until[some]
    places = Places.over(len(commits.slots), begin, until, log_offset)
    begun = np.searchsorted(np.sort(places.keys(own, begin)), places.keys(slot, log_offset))
    ended = np.searchsorted(np.sort(places.keys(own, until)), places.keys(slot, log_offset))
    return np.asarray(begun > ended)


def last_transactions(pending: Pending, commits: Commits) -> tuple[I64, I64, I64, Flags]:
    """(group, producer) of the pending values, the end of the producer's last transaction, and whether 3.8 to 4.0.0 no
    longer have the producer noted for the group then (KAFKA-19164).

    A value notes its producer for its group. The producer's marker removes the note, but only if a value of that group
    is still pending. If a tombstone has removed the last one, the note stays, until a later transaction ends with a
    pending value.

        g: @10 value of 7, @11 tombstone, @12 COMMIT of 7                            ->  (g, 7, 12, False)
        g: the same, @13 value of 7, @14 COMMIT of 7                                 ->  (g, 7, 14, True)
    """
    group, producer = commits.slots.group[commits.slot[pending.row]], commits.producer_id[pending.row]
    order = np.lexsort((pending.end, producer, group))
    transaction = np.cumsum(starts_of(group[order], producer[order], pending.end[order])) - 1
    is_found = np.bincount(transaction, weights=pending.survives[order]) > 0
    # The last transaction of each pair decides.
    is_last = lasts_of(group[order], producer[order])
    last = order[is_last]
    return group[last], producer[last], pending.end[last], is_found[transaction[is_last]]


def _dropped_at(commits: Commits, row: I64, end: I64, release: Release) -> I64:
    """For each pending value the log offset of the first tombstone that removes it; NEVER: its marker comes first."""
    drops = release.tombstone_removes_pending
    is_own = drops == "of_its_transaction"
    takes = commits.is_tombstone & commits.is_transactional if is_own else commits.is_tombstone
    tombstone = np.flatnonzero(takes)
    if drops == "none" or not len(tombstone):
        return np.full(len(row), NEVER)
    both = np.concatenate([tombstone, row])
    owner, owners = commits.slot[both], len(commits.slots)
    if is_own:
        _, producer = np.unique(commits.producer_id[both], return_inverse=True)
        _, owner = np.unique(owner * (int(producer.max()) + 1) + producer, return_inverse=True)
        owners = int(owner.max()) + 1
    places = Places.over(owners, commits.log_offset[both])
    keys = places.keys(owner, commits.log_offset[both])
    by_key = np.argsort(keys[: len(tombstone)])
    at = np.searchsorted(keys[: len(tombstone)][by_key], keys[len(tombstone) :])
    first = by_key[np.minimum(at, len(by_key) - 1)]
    is_known = (at < len(by_key)) & (owner[first] == owner[len(tombstone) :])
    found = np.where(is_known, commits.log_offset[tombstone[first]], NEVER)
    return np.where(found < end, found, NEVER)


@dataclass(frozen=True, eq=False)
class Effects:
    """m places at which a record took effect or a tombstone was written, by slot and place. `before` indexes these
    rows.

    row           number of the record among the commits
    place         log offset of the record, or of the marker that put it into effect
    by_marker     `place` is a marker's
    takes_effect  the value became the committed offset; false: a tombstone, or a newer record was committed already
    before        the row with the value that it replaced, or that the tombstone removed; -1: the slot had none
    is_final      it is the committed offset at the end of the log
    """

    row: I64
    place: I64
    by_marker: Flags
    takes_effect: Flags
    before: I64
    is_final: Flags

    def __len__(self) -> int:
        return len(self.row)


class Fold(NamedTuple):
    """The slots of a range: their records (OFFSET_RECORDS, the saved ones first), the outcome of these, and the removed
    offsets of the saved state with their slots."""

    records: pa.Table
    saved_rows: int
    commits: Commits
    pending: Pending
    effects: Effects
    removed: pa.Table
    removed_slot: I64


def effects_of(commits: Commits, by_record: I64, pending: Pending, release: Release) -> Effects:
    """The effects of the commits of some groups, which are given by slot and log offset, too (`by_record`).

    The saved state consists of rows of the same kind: a committed offset is a plain value at its log offset, a pending
    one is a value with its producer. So the log may be cut anywhere.

    One slot, release 4.3: @10 value 5   @11 value 9 of producer 7   @12 value 6   @13 COMMIT of 7   @14 tombstone

        row of @   place  by_marker  takes_effect  before         is_final
        10         10     False      True          -1             False
        12         12     False      True          0 (@10)        False
        11         13     True       False         1 (@12)        False     @12 is newer than @11
        14         14     False      False         1 (@12)        False     the tombstone removes @12
    """
    # Plain values, and tombstones that remove committed offsets, take effect at their own log offset.
    acts = commits.is_readable & ~commits.waits
    if release.tombstone_removes_pending == "of_its_transaction":
        acts &= ~(commits.is_tombstone & commits.is_transactional)
    plain = by_record[acts[by_record]]
    put = np.flatnonzero(pending.survives & pending.is_commit)
    row = np.concatenate([plain, pending.row[put]])
    place = np.concatenate([commits.log_offset[plain], pending.end[put]])
    by_marker = np.repeat([False, True], [len(plain), len(put)])
    if len(put):
        places = Places.over(len(commits.slots), place)
        order = sorted_order(places.keys(commits.slot[row], place))
        row, place, by_marker = row[order], place[order], by_marker[order]
    slot, is_tombstone = commits.slot[row], commits.is_tombstone[row]
    takes_effect, number, starts = ~is_tombstone, np.arange(len(row)), starts_of(slot)
    if len(put) and release.commit_needs_newer_record:
        at, others = np.flatnonzero(by_marker), np.flatnonzero(~by_marker)
        begins = np.flatnonzero(starts | np.concatenate([[False], is_tombstone[:-1]]))
        takes_effect[at] &= _is_newer(at, commits.log_offset[row[at]], others, place[others], begins)
    # The last row of the slot that took effect counts, unless a tombstone came after it.
    last = np.maximum.accumulate(np.where(takes_effect, number, -1))
    emptied = np.where(is_tombstone, number, np.where(starts, number - 1, -1))
    holds = np.where(last > np.maximum.accumulate(emptied), last, -1)
    before = np.empty(len(row), np.int64)
    before[1:] = holds[:-1]
    before[starts] = -1
    is_final = np.zeros(len(row), np.bool_)
    held = holds[lasts_of(slot)]
    is_final[held[held >= 0]] = True
    return Effects(row, place, by_marker, takes_effect, before, is_final)


def _is_newer(at: I64, log_offset: I64, others: I64, log_offset_of_others: I64, begins: I64) -> Flags:
    """Whether the record of each row `at`, put into effect by a marker, is newer than every other record of its slot
    that took effect before it and after the last tombstone. `begins`: rows that begin a slot or follow a tombstone."""
    stretch, before = np.searchsorted(begins, at, side="right") - 1, np.searchsorted(others, at)
    is_newer = np.append(-1, others)[before] < begins[stretch]  # their log offsets ascend, so the last one counts
    is_newer |= np.append(-1, log_offset_of_others)[before] < log_offset
    order = Places.over(len(begins), log_offset).keys(stretch, log_offset)
    newest = np.concatenate([[-1], np.maximum.accumulate(order)[:-1]])
    return np.asarray(is_newer & (order > newest))


# Moves of committed offsets: backwards, to another topic id, or forward while the group had no members.
#
# The fold already has each slot's previous offset. Nearly all commits move forward. Such a move is an event only if the
# group has members at other times but had none then: `climbs` needs the quiet times of these groups.


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


class Quiet(NamedTuple):
    """Times without members of groups that have members at other times: from after the record at `since`, which emptied
    the group, to the next record about it (NEVER: none yet). Rows by group (number in Slots) and `since`."""

    group: I64
    since: I64
    until: I64


def moves(folded: Fold) -> I64:
    """Effects that moved an offset backwards, or to another topic id.

    Offsets of a slot as they took effect: 5, 9, 7, 7, 8 (of another topic id than 7)  ->  at the first 7 and at 8
    """
    effects = folded.effects
    at = np.flatnonzero(effects.takes_effect & (effects.before >= 0))
    offsets = numbers(folded.records["committed_offset"])[effects.row]
    was = offsets[effects.before[at]]
    return at[(offsets[at] < was) & (was >= 0) | _is_other_topic(folded, at)]


def climbs(folded: Fold, quiet: Quiet) -> I64:
    """Effects that moved an offset forward in quiet times, outside of transactions and with the same topic id, as an
    admin reset does."""
    effects, slots = folded.effects, folded.commits.slots
    if not len(quiet.group) or not len(effects):
        return np.zeros(0, np.int64)
    has_quiet = np.zeros(len(slots.groups), np.bool_)
    has_quiet[quiet.group] = True
    group = slots.group[folded.commits.slot[effects.row]]
    at = np.flatnonzero(has_quiet[group] & effects.takes_effect & ~effects.by_marker & (effects.before >= 0))
    offsets = numbers(folded.records["committed_offset"])
    was = offsets[effects.row[effects.before[at]]]
    at = at[(offsets[effects.row[at]] > was) & (was >= 0)]
    place = effects.place[at]
    span = latest_at(quiet.group, quiet.since, group[at], place)
    at = at[(span >= 0) & (place < quiet.until[span])]
    return at[~_is_other_topic(folded, at)]


def births(effects: Effects) -> I64:
    """Effects that gave a slot a committed offset where it had none."""
    return np.flatnonzero(effects.takes_effect & (effects.before < 0))


def placed_rows(folded: Fold, at: I64, markers: Markers, first_slot: int) -> pa.Table:
    """Effects as rows of PLACED. `first_slot`: number of the fold's first slot among those of all ranges."""
    if not len(at):
        return no_rows(PLACED)
    effects = folded.effects
    rows = folded.records.take(pa.array(effects.row[at]))
    place, by_marker = effects.place[at], effects.by_marker[at]
    log_timestamp = numbers(rows["log_timestamp"], none=-1).copy()
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
    was, now = offset_before.to_numpy(), numbers(placed["committed_offset"])
    ids = topic_id_before.cast(pa.string()), placed["topic_id"].combine_chunks().cast(pa.string())
    recreated, by_marker = flags(pc.not_equal(*ids)), flags(placed["by_marker"])
    event = np.where(now < was, "offset_rewound", "offset_skipped")
    if restarts:
        event = np.full(len(now), "offset_restarted")
    # Clients take a negative offset for none, so nothing is rewound to it, or skipped from it.
    event = np.where(now < 0, "offset_unset", event)
    found = np.flatnonzero((was >= 0) & (restarts | (now < was) | ((now > was) & ~recreated)))
    cause = np.where(recreated, "topic_recreated", np.where(by_marker, "transaction", "no_members"))
    has_cause = recreated | by_marker | (event == "offset_skipped")
    nothing = {field.name: pa.nulls(len(placed), field.type) for field in MOVES} | by_name(placed)
    renamed = {
        "event_timestamp": placed["log_timestamp"],
        "event": pa.repeat("topic_recreated", len(placed)),
        "value_before": ids[0],
        "value_after": ids[1],
    }
    moved = {
        "event_timestamp": pc.if_else(placed["by_marker"], placed["log_timestamp"], placed["commit_timestamp"]),
        "event": pa.array(event.tolist(), pa.string()),
        "offset_before": pa.array(was),
        "offset_after": placed["committed_offset"],
        "cause": pa.array(cause.tolist(), pa.string(), mask=~has_cause),
    }
    chosen = ((renamed, np.flatnonzero(recreated)), (moved, found))
    return pa.concat_tables([pa.table(nothing | each, MOVES).take(pa.array(rows)) for each, rows in chosen])


def in_order(events: pa.Table) -> pa.Table:
    """Rows of MOVES in the order of their numbers: by log offset, then slot. A value's topic_recreated comes before its
    other event; a marker's events of one slot come by name."""
    if not len(events):
        return events
    is_renamed = pc.equal(events.column("event"), "topic_recreated").to_numpy()
    rank = is_renamed == flags(events["by_marker"])
    order = np.lexsort((rank, numbers(events["slot"]), numbers(events["log_offset"])))
    return events.take(pa.array(order))


def _is_other_topic(folded: Fold, at: I64) -> Flags:
    """Whether an effect has another topic id than the value that it replaces; false if one of the two has none."""
    if folded.records["topic_id"].null_count == len(folded.records):
        return np.zeros(len(at), np.bool_)
    topic_id = numbers(folded.records["topic_id"].chunk(0).indices, none=-1)
    now, was = topic_id[folded.effects.row[at]], topic_id[folded.effects.row[folded.effects.before[at]]]
    return np.asarray((now != was) & (now >= 0) & (was >= 0))
