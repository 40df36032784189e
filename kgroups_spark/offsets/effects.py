"""Which value takes effect at which log offset, and which value it replaces, as in the coordinator's maps.

A plain value takes effect at its own log offset. A transactional value takes effect at its producer's COMMIT, unless a
record with a greater log offset has committed the slot by then (T19, T20; 3.7 does not check that). A tombstone removes
the committed offset; in Scala a tombstone in a transaction affects only that transaction (T22).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.numbers import I64, Flags, Markers, Places, lasts_of, sorted_order, starts_of
from kgroups_spark.offsets.pending import Pending, is_pending_value, pending_values
from kgroups_spark.offsets.records import Commits


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


@dataclass(frozen=True, eq=False)
class Fold:
    """The commits of some groups, and their effects."""

    commits: Commits
    pending: Pending
    effects: Effects


def fold(commits: Commits, markers: Markers, release: Release) -> Fold:
    """The outcome of the commits of some groups of an offsets partition; `markers` are all of its markers.

    The saved state consists of rows of the same kind: a committed offset is a plain value at its log offset, a pending
    one is a value with its producer. So the log may be cut anywhere.

    One slot, release 4.3: @10 value 5   @11 value 9 of producer 7   @12 value 6   @13 COMMIT of 7   @14 tombstone

        row of @   place  by_marker  takes_effect  before         is_final
        10         10     False      True          -1             False
        12         12     False      True          0 (@10)        False
        11         13     True       False         1 (@12)        False     @12 is newer than @11
        14         14     False      False         1 (@12)        False     the tombstone removes @12
    """
    places = Places.over(len(commits.slots), commits.log_offset)
    by_record = sorted_order(places.keys(commits.slot, commits.log_offset))
    pending = pending_values(commits, by_record, markers, release)
    return Fold(commits, pending, _effects(commits, by_record, pending, release))


def _effects(commits: Commits, by_record: I64, pending: Pending, release: Release) -> Effects:
    plain = by_record[_acts_at_once(commits, release)[by_record]]
    put = np.flatnonzero(pending.survives & pending.is_commit)
    row = np.concatenate([plain, pending.row[put]])
    place = np.concatenate([commits.log_offset[plain], pending.end[put]])
    by_marker = np.repeat([False, True], [len(plain), len(put)])
    if len(put):
        places = Places.over(len(commits.slots), place)
        order = sorted_order(places.keys(commits.slot[row], place))
        row, place, by_marker = row[order], place[order], by_marker[order]
    slot, is_tombstone = commits.slot[row], commits.is_tombstone[row]
    takes_effect = ~is_tombstone
    if len(put) and release.commit_needs_newer_record:
        # A slot's newer row comes later in `by_record`.
        newness = np.empty(len(commits), np.int64)
        newness[by_record] = np.arange(len(commits))
        takes_effect &= ~by_marker | _is_newer(newness[row], starts_of(slot), is_tombstone)
    return Effects(row, place, by_marker, takes_effect, *_chain(slot, is_tombstone, takes_effect))


def _acts_at_once(commits: Commits, release: Release) -> Flags:
    """Records that take effect at their own log offset: plain values, and tombstones that remove committed offsets."""
    acts = commits.is_readable & ~is_pending_value(commits, release)
    if release.tombstone_removes_pending == "of_its_transaction":
        acts &= ~(commits.is_tombstone & commits.is_transactional)
    return acts


def _is_newer(newness: I64, starts: Flags, is_tombstone: Flags) -> Flags:
    """Whether a row's record is newer than every other record of its slot that took effect before it and after the last
    tombstone."""
    stretch = np.cumsum(starts | np.concatenate([[False], is_tombstone[:-1]]))
    base = stretch * (len(newness) + int(newness.max(initial=0)) + 2)
    newest = np.maximum.accumulate(base + newness + 1) - base
    before = np.concatenate([[0], newest[:-1]])
    before[starts_of(stretch)] = 0
    return np.asarray(newness + 1 > before)


def _chain(slot: I64, is_tombstone: Flags, takes_effect: Flags) -> tuple[I64, Flags]:
    """`before` and `is_final` of rows by slot and place."""
    rows = len(slot)
    number = np.arange(rows)
    starts = starts_of(slot)
    # The last row of the slot that took effect counts, unless a tombstone came after it.
    last = np.maximum.accumulate(np.where(takes_effect, number, -1))
    emptied = np.where(is_tombstone, number, np.where(starts, number - 1, -1))
    holds = np.where(last > np.maximum.accumulate(emptied), last, -1)
    before = np.empty(rows, np.int64)
    before[1:] = holds[:-1]
    before[starts] = -1
    is_final = np.zeros(rows, np.bool_)
    held = holds[lasts_of(slot)]
    is_final[held[held >= 0]] = True
    return before, is_final
