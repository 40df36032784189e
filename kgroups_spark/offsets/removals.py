"""Removals by tombstones, and the removals that a shard remembers.

A removed offset is remembered for the first commit after the removal (`offset_restarted`), and so that a second
tombstone is not reported. An offsets partition remembers the newest REMEMBERED removals and drops the oldest first.
Only here one slot depends on others. So tombstones, which are few, are handled one by one, those of all groups
together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.events import REMEMBERED
from kgroups_spark.offsets.columns import (
    ALONE,
    I64,
    NEVER,
    Commits,
    Flags,
    JoinedLog,
    Markers,
    Places,
    lasts_of,
    sorted_order,
    starts_of,
)
from kgroups_spark.offsets.effects import MOVES, Fold, births, move_events, pending_at, placed_rows
from kgroups_spark.offsets.state import REMOVED_OFFSETS
from kgroups_spark.tables.rows import by_name, flags, is_given, no_rows, numbers, one_array, with_columns


class Remembered(NamedTuple):
    """The result of `remember`: indexes of the tombstones and births that it was given, with the tombstones of the
    saved state first.

    reports       for each tombstone: it is an event, because it removed an offset that was not remembered as removed
    restarts      for each birth: the tombstone that had removed the slot's offset; -1: none is remembered
    at_the_end    tombstones that are remembered at the end, the oldest first
    """

    reports: Flags
    restarts: I64
    at_the_end: I64


def is_any_left(born: tuple[I64, I64], gone: tuple[I64, I64], owner: I64, place: I64) -> Flags:
    """Whether a group, or all groups of a topic, have committed offsets left right after a place.

    `born`, `gone`: (owner, place) of each slot that received and lost its committed offset, in the whole shard.
    """
    if not len(owner):
        return np.zeros(0, np.bool_)
    of_born, born_at = (each[np.isin(born[0], owner)] for each in born)
    steps = np.repeat([1, -1], [len(of_born), len(gone[0])])
    at = np.concatenate([born_at, gone[1]])
    owners, number = np.unique(np.concatenate([of_born, gone[0], owner]), return_inverse=True)
    own, of = number[: len(at)], number[len(at) :]
    order = np.lexsort((at, own))
    own, at, counts = own[order], at[order], np.concatenate([[0], np.cumsum(steps[order])])
    starts = np.searchsorted(own, np.arange(len(owners)))
    # Rows by owner and place: rows of an owner at the place come before the question about it.
    rank = np.lexsort((np.repeat([0, 1], [len(own), len(of)]), np.concatenate([at, place]), np.concatenate([own, of])))
    is_row = rank < len(own)
    upto = np.empty(len(of), np.int64)
    upto[rank[~is_row] - len(own)] = np.cumsum(is_row)[~is_row]
    return np.asarray(counts[upto] > counts[starts[of]])


def remember(gone: tuple[I64, I64, Flags], born: tuple[I64, I64], log: JoinedLog = ALONE) -> Remembered:
    """Goes through the tombstones and births of a log in log order.

    `gone`: the slot and the log offset of each tombstone, and whether it removed a committed offset. Earlier remembered
    removals are given as tombstones at their log offsets. `born`: the slots and log offsets of births. Slots are
    numbered across all folds.

    slot 4: tombstone @3 (known), tombstone @5, birth @6, tombstone @9 (unknown)
        ->  reports [True, False, True], restarts [0], at_the_end [2]
    """
    (slot, place, is_known), (born_slot, born_place) = gone, born
    reports = np.zeros(len(slot), np.bool_)
    restarts = np.full(len(born_slot), -1)
    # Slots without a tombstone cannot have been removed.
    some = np.flatnonzero(np.isin(born_slot, slot))
    steps = np.concatenate([np.arange(len(slot)), ~some])
    steps = steps[np.argsort(np.concatenate([place, born_place[some]]), kind="stable")]
    slots, born_slots, known = slot.tolist(), born_slot.tolist(), is_known.tolist()
    number, newest, settled = log.number_at(place).tolist(), 0, 0
    known_gone: dict[int, int] = {}
    for step in steps.tolist():
        if step < 0:
            restarts[~step] = known_gone.pop(born_slots[~step], -1)
        elif known[step] or slots[step] not in known_gone:
            if number[step] > newest:
                newest, settled = number[step], len(known_gone)
            reports[step] = True
            known_gone.pop(slots[step], None)
            known_gone[slots[step]] = step
            # Each offsets partition has its own limit; those before this one are settled.
            if len(known_gone) - settled > REMEMBERED:
                del known_gone[next(itertools.islice(known_gone, settled, None))]
    return Remembered(reports, restarts, np.array(list(known_gone.values()), np.int64))


# Removed offsets of a whole shard: reported tombstones, first commits after removals, removals to remember.


# A tombstone that may remove a committed offset: the removed offset, and the facts that its cause depends on.
TOMBSTONES = pa.schema(
    [
        ("slot", pa.int64()),  # number of the slot among those of all ranges
        *REMOVED_OFFSETS,  # committed_offset and topic_id: of the removed offset
        ("log_timestamp", pa.int64()),  # ms; null: none
        ("offset_delta", pa.int32()),  # after the base offset of its batch; null: not known
        ("commit_timestamp", pa.int64()),  # of the removed offset, ms; null: none
        ("expire_timestamp", pa.int64()),
        ("value_version", pa.int16()),
        ("removed_log_offset", pa.int64()),  # the record whose value it removed; null: the log does not have it
        ("is_pending", pa.bool_()),  # an open transaction held an offset of the slot
        ("is_group_left", pa.bool_()),  # the group has other committed offsets left
        ("is_topic_left", pa.bool_()),  # a group of the offsets partition has an offset of the topic left
        ("is_reported", pa.bool_()),  # it is an event: not remembered as removed, nor only ever pending
    ]
)
_OF_REMOVED = ("committed_offset", "topic_id", "commit_timestamp", "expire_timestamp", "value_version")


@dataclass(eq=False)
class ShardRemovals:
    """Collects the removals of the ranges of a log."""

    log: JoinedLog
    _tombstones: list[pa.Table] = field(default_factory=list)
    _saved: list[pa.Table] = field(default_factory=list)
    _born_later: list[pa.Table] = field(default_factory=list)
    # The place of each birth, and by column its names with the index of the birth's.
    _born: list[tuple[I64, dict[str, tuple[pa.Array, I64]]]] = field(default_factory=list)

    def add(self, folded: Fold, markers: Markers, first_slot: int) -> None:
        commits, effects = folded.commits, folded.effects
        self._saved.append(folded.removed.append_column("slot", pa.array(folded.removed_slot + first_slot)))
        if len(at := np.flatnonzero(commits.is_tombstone[effects.row])):
            # Columns that depend on other ranges are filled in later.
            rows, slot = folded.records.take(pa.array(effects.row[at])), commits.slot[effects.row[at]]
            before = effects.before[at]
            removed = pa.array(effects.row[before], mask=before < 0)
            values = folded.records.select([*_OF_REMOVED, "log_offset"]).take(removed)
            columns = {
                "slot": pa.array(slot + first_slot),
                **{name: values[name] for name in _OF_REMOVED},
                "removed_log_offset": values["log_offset"],
                "is_pending": pa.array(pending_at(folded.pending, commits, slot, effects.place[at])),
                **dict.fromkeys(("is_group_left", "is_topic_left", "is_reported"), pa.nulls(len(rows), pa.bool_())),
            }
            self._tombstones.append(pa.table(by_name(rows) | columns, TOMBSTONES))
        born = births(effects)
        slot, slots, place = commits.slot[effects.row[born]], commits.slots, effects.place[born]
        names = {"group_id": (slots.groups, slots.group[slot]), "topic": (slots.topics, slots.topic[slot])}
        self._born.append((place, names))
        gone = np.concatenate([folded.removed_slot, commits.slot[commits.is_tombstone]])
        self._born_later.append(placed_rows(folded, born[np.isin(slot, gone)], markers, first_slot))

    def result(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """TOMBSTONES in log order, events of restarts (MOVES), and what is remembered at the end (REMOVED_OFFSETS)."""
        saved = pa.concat_tables(self._saved)
        if not len(saved) and not self._tombstones:
            return no_rows(TOMBSTONES), no_rows(MOVES), no_rows(REMOVED_OFFSETS)
        saved = saved.sort_by("log_offset")
        tombstones = pa.concat_tables([no_rows(TOMBSTONES), *self._tombstones]).sort_by("log_offset")
        born = pa.concat_tables(self._born_later)
        known = np.concatenate([np.ones(len(saved), np.bool_), tombstones.column("removed_log_offset").is_valid()])
        slot, place = (
            np.concatenate([numbers(saved[name]), numbers(tombstones[name])]) for name in ("slot", "log_offset")
        )
        found = remember((slot, place, known), (numbers(born["slot"]), numbers(born["log_offset"])), self.log)
        of_both = pa.concat_tables([each.select(REMOVED_OFFSETS.names) for each in (saved, tombstones)])
        of_both = of_both.unify_dictionaries().combine_chunks()
        reported = found.reports[len(saved) :] & (known[len(saved) :] | ~flags(tombstones["is_pending"]))
        tombstones = with_columns(
            tombstones,
            is_reported=pa.array(reported),
            is_group_left=pa.array(self._is_any_left("group_id", tombstones)),
            is_topic_left=pa.array(self._is_any_left("topic", tombstones)),
        )
        # Events of the first commits after removals with a known removed offset.
        after = np.flatnonzero(found.restarts >= 0)
        was = of_both.take(pa.array(found.restarts[after]))
        is_known = is_given(was["committed_offset"])
        was, placed = was.filter(pa.array(is_known)), born.take(pa.array(after[is_known]))
        before = was["committed_offset"].combine_chunks(), was["topic_id"].combine_chunks()
        restarts = move_events(placed, *before, restarts=True)
        return tombstones, restarts, of_both.take(pa.array(found.at_the_end))

    def _is_any_left(self, name: str, tombstones: pa.Table) -> Flags:
        texts, gone = one_array(tombstones[name]), numbers(tombstones["log_offset"])
        parts = [
            *((place, *names[name]) for place, names in self._born),
            (gone, texts.dictionary, texts.indices.to_numpy()),
        ]
        # A number for the name and the offsets partition of each place.
        known, owners = dict[str, int](), list[I64]()
        for place, texts_of, index in parts:
            of_names = np.array([known.setdefault(each, len(known)) for each in texts_of.to_pylist()], np.int64)
            owners.append(of_names[index] * len(self.log) + self.log.number_at(place))
        *born, owner = owners
        born_at = np.concatenate([place for place, _ in self._born])
        removes = is_given(tombstones["removed_log_offset"])
        return is_any_left((np.concatenate(born), born_at), (owner[removes], gone[removes]), owner, gone)


# Since when groups have offsets: the only facts on offsets that the replay of groups needs.
#
# Java (`first_values`): a value creates a simple group if there is none, and only a tombstone of the group removes it.
# Scala (`holdings`): a group without metadata exists exactly as long as it has offsets, including pending ones.


@dataclass(frozen=True, eq=False)
class Holdings:
    """Whether a group has committed and pending offsets, from the log offset `since` to the group's next row.

    Rows are sorted by group (number in Slots) and `since`; each changes one of the two flags. Before its first row a
    group has no offsets.
    """

    group: I64
    since: I64
    has_committed: Flags
    has_pending: Flags

    def __len__(self) -> int:
        return len(self.group)


def holdings(folded: Fold) -> Holdings:
    """When each group of a fold has offsets.

    g: @10 value of producer 7, @12 COMMIT, @15 tombstone  ->  since [10, 12, 15]
                                    has_committed [False, True, False], has_pending [True, False, False]
    """
    commits, effects, pending = folded.commits, folded.effects, folded.pending
    group_of, groups = commits.slots.group, len(commits.slots.groups)
    born = births(effects)
    gone = np.flatnonzero(commits.is_tombstone[effects.row] & (effects.before >= 0))
    # Only a group's first offset counts, unless some of its offsets are removed.
    group, born_at = group_of[commits.slot[effects.row[born]]], effects.place[born]
    counts, first = np.zeros(groups, np.bool_), np.full(groups, NEVER)
    counts[group_of[commits.slot[effects.row[gone]]]] = True
    np.minimum.at(first, group, born_at)
    born = born[counts[group] | (born_at == first[group])]
    begun = np.flatnonzero(pending.is_first)
    ended = begun[pending.until[begun] < NEVER]
    row = [effects.row[born], effects.row[gone], pending.row[begun], pending.row[ended]]
    place = [effects.place[born], effects.place[gone], commits.log_offset[pending.row[begun]], pending.until[ended]]
    sizes = [len(each) for each in row]
    group, at = group_of[commits.slot[np.concatenate(row)]], np.concatenate(place)
    return _changes(group, at, np.repeat([1, -1, 0, 0], sizes), np.repeat([0, 0, 1, -1], sizes), groups)


def merged(found: Holdings, starts: Flags, groups: int) -> Holdings:
    """The holdings of groups whose slots were in several folds. `starts`: marks the first row of each group of a fold.

    g in one fold: has_committed from 10 to 15, in the next one: from 12 on  ->  since [10], has_committed [True]
    """
    committed, pending = (
        has.astype(np.int64) - (np.concatenate([[False], has[:-1]]) & ~starts)
        for has in (found.has_committed, found.has_pending)
    )
    return _changes(found.group, found.since, committed, pending, groups)


def first_values(commits: Commits, ends: I64, saved_rows: int) -> I64:
    """Records that are a group's first value in the log, or the first after one of its `ends` (rows of group and log
    offset). The first `saved_rows` records do not count: the saved state has their groups.

    Ends are the tombstones of types 2 to 23, which may have removed the group. A value that the release does not read
    creates no group.
    """
    row = saved_rows + np.flatnonzero((commits.is_readable & ~commits.is_tombstone)[saved_rows:])
    if not len(row):
        return row
    group, log_offset = commits.slots.group[commits.slot[row]], commits.log_offset[row]
    places = Places.over(len(commits.slots.groups), log_offset, ends[:, 1])
    keys = np.sort(places.keys(ends[:, 0], ends[:, 1]))
    # The number of ends before the value, in its own and all earlier groups, plus the group's number: one number for
    # each stretch.
    stretch = (np.searchsorted(keys, places.keys(group, log_offset)) if len(keys) else 0) + group
    first = np.full(int(stretch.max()) + 1, NEVER)
    np.minimum.at(first, stretch, log_offset)
    return np.asarray(row[log_offset == first[stretch]])


def turning_records(commits: Commits, found: Holdings, saved_rows: int) -> I64:
    """Records after which a group has its first offset, or no longer has any, except the first `saved_rows`."""
    has_any = found.has_committed | found.has_pending
    had_any = np.concatenate([[False], has_any[:-1]]) & ~starts_of(found.group)
    places = found.since[has_any != had_any]
    return np.asarray(saved_rows + np.flatnonzero(np.isin(commits.log_offset[saved_rows:], places)))


def _changes(group: I64, place: I64, committed: I64, pending: I64, groups: int) -> Holdings:
    order = sorted_order(Places.over(groups, place).keys(group, place))
    group, place = group[order], place[order]
    counts = [np.cumsum(steps[order]) for steps in (committed, pending)]
    is_start = starts_of(group)
    first = np.flatnonzero(is_start)
    of = np.cumsum(is_start) - 1
    has = []
    for count in counts:
        before = np.concatenate([[0], count])[first]
        has.append(count > before[of] if len(count) else np.zeros(0, np.bool_))
    last = lasts_of(group, place)
    group, place, has_committed, has_pending = group[last], place[last], has[0][last], has[1][last]
    changes = starts_of(group, has_committed, has_pending)
    # A group's first row without offsets changes nothing.
    changes &= ~(starts_of(group) & ~has_committed & ~has_pending)
    return Holdings(group[changes], place[changes], has_committed[changes], has_pending[changes])
