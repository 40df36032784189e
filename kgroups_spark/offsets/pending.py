"""Values that wait for their producer's marker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.numbers import (
    COMMIT,
    I64,
    NEVER,
    Flags,
    Markers,
    Places,
    lasts_of,
    next_marker,
    sorted_order,
    starts_of,
)
from kgroups_spark.offsets.records import Commits


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
        found: Flags = (self.end < NEVER) & (self.dropped_at == NEVER) & self.is_last
        return found

    @property
    def is_open(self) -> Flags:
        """Whether it is pending at the end of the log."""
        found: Flags = (self.end == NEVER) & (self.dropped_at == NEVER) & self.is_last
        return found


def is_pending_value(commits: Commits, release: Release) -> Flags:
    """Which records are values that wait for a marker. Java checks the producer id (T28), Scala the batch's bit."""
    waits = commits.producer_id >= 0 if release.transactional_by == "producer_id" else commits.is_transactional
    found: Flags = waits & commits.is_readable & ~commits.is_tombstone
    return found


def pending_values(commits: Commits, by_record: I64, markers: Markers, release: Release) -> Pending:
    """The values that were pending, and how that ended. `by_record`: the commits by slot and log offset.

    One slot, producer 7, release 4.3:    @10 value  @11 value  @12 COMMIT  @13 value  @14 tombstone  @15 value

        row of @   end   dropped_at  is_last  is_first
        10         12    NEVER       False    True      a later value of the transaction took its place
        11         12    NEVER       True     False     it takes effect at 12
        13         NEVER 14          False    True      dropped: the tombstone removes pending values, too (T21)
        15         NEVER NEVER       True     True      still open
    """
    row = by_record[is_pending_value(commits, release)[by_record]]
    if not release.unknown_marker_ends_transaction:
        markers = markers.ends()
    marker = next_marker(commits.producer_id[row], commits.log_offset[row], markers)
    if len(markers):
        end = np.where(marker >= 0, markers.log_offset[marker], NEVER)
        is_commit = (marker >= 0) & (markers.outcome[marker] == COMMIT)
    else:
        end, is_commit = np.full(len(row), NEVER), np.zeros(len(row), np.bool_)
    dropped_at = _dropped_at(commits, row, end, release)
    is_last, is_first = _ends_of_runs(commits, row, marker, len(markers), dropped_at)
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
    none = np.full(len(row), NEVER)
    drops = release.tombstone_removes_pending
    if drops == "none" or not len(row):
        return none
    is_own = drops == "of_its_transaction"
    takes = commits.is_tombstone & commits.is_transactional if is_own else commits.is_tombstone
    tombstone = np.flatnonzero(takes)
    if not len(tombstone):
        return none
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


def _ends_of_runs(commits: Commits, row: I64, marker: I64, markers: int, dropped_at: I64) -> tuple[Flags, Flags]:
    """`is_last` and `is_first` of values by slot and log offset. `marker`: index of the marker that ended it, or -1."""
    # A transaction is its marker, or its producer if it is open.
    transaction = marker.copy()
    is_open = marker < 0
    producers, number = np.unique(commits.producer_id[row[is_open]], return_inverse=True)
    transaction[is_open] = markers + number
    order = sorted_order(commits.slot[row] * (markers + len(producers)) + transaction)
    slot, transaction, dropped_at = commits.slot[row][order], transaction[order], dropped_at[order]
    is_last, is_first = np.empty(len(row), np.bool_), np.empty(len(row), np.bool_)
    is_last[order] = lasts_of(slot, transaction)
    is_first[order] = starts_of(slot, transaction, dropped_at)
    return is_last, is_first
