"""Removals by tombstones, and the removals that a shard remembers.

A removed offset is remembered for the first commit after the removal (`offset_restarted`), and so that a second
tombstone is not reported. An offsets partition remembers the newest REMEMBERED removals and drops the oldest first.
Only here one slot depends on others. So tombstones, which are few, are handled one by one, those of all groups
together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgroups_spark.coordinator.group_events import REMEMBERED
from kgroups_spark.offsets.effects import Fold
from kgroups_spark.offsets.numbers import I64, Flags
from kgroups_spark.offsets.pending import pending_at


@dataclass(frozen=True, eq=False)
class Removals:
    """r tombstones of one fold that may remove a committed offset, by slot and place.

    at          index of the effect
    removed     index of the effect with the removed value; -1: the log does not have it
    is_pending  a producer had a pending value of the slot
    """

    at: I64
    removed: I64
    is_pending: Flags

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, eq=False)
class Remembered:
    """The result of `remember`: indexes of the tombstones and births that it was given, with the tombstones of the
    saved state first.

    reports       for each tombstone: it is an event, because it removed an offset that was not remembered as removed
    restarts      for each birth: the tombstone that had removed the slot's offset; -1: none is remembered
    at_the_end    tombstones that are remembered at the end, the oldest first
    """

    reports: Flags
    restarts: I64
    at_the_end: I64


def removals(folded: Fold) -> Removals:
    """The tombstones of a fold.

    @10 value, @11 tombstone, @12 tombstone  ->  at [@11, @12], removed [@10, -1]
    """
    commits, effects = folded.commits, folded.effects
    at = np.flatnonzero(commits.is_tombstone[effects.row])
    is_pending = pending_at(folded.pending, commits, commits.slot[effects.row[at]], effects.place[at])
    return Removals(at, effects.before[at], is_pending)


def is_any_left(born: tuple[I64, I64], gone: tuple[I64, I64], owner: I64, place: I64) -> Flags:
    """Whether a group, or all groups of a topic, have committed offsets left right after a place.

    `born`, `gone`: (owner, place) of each slot that received and lost its committed offset, in the whole shard.
    """
    changes = np.concatenate([born[0], gone[0]])
    steps = np.repeat([1, -1], [len(born[0]), len(gone[0])])
    return _left(changes, np.concatenate([born[1], gone[1]]), steps, owner, place) > 0


def remember(
    slot: I64, place: I64, is_known: Flags, born_slot: I64, born_place: I64, limit: int | None = None
) -> Remembered:
    """Goes through the tombstones and births of a shard in log order.

    `is_known`: the tombstone removed a committed offset. Earlier remembered removals are given as tombstones at their
    log offsets. Slots are numbered across all folds.

    slot 4: tombstone @3 (known), tombstone @5, birth @6, tombstone @9 (unknown)
        ->  reports [True, False, True], restarts [0], at_the_end [2]
    """
    limit = REMEMBERED if limit is None else limit
    reports = np.zeros(len(slot), np.bool_)
    restarts = np.full(len(born_slot), -1)
    # Slots without a tombstone cannot have been removed.
    some = np.flatnonzero(np.isin(born_slot, slot))
    steps = np.concatenate([np.arange(len(slot)), ~some])
    steps = steps[np.argsort(np.concatenate([place, born_place[some]]), kind="stable")]
    slots, born_slots, known = slot.tolist(), born_slot.tolist(), is_known.tolist()
    gone: dict[int, int] = {}
    for step in steps.tolist():
        if step < 0:
            restarts[~step] = gone.pop(born_slots[~step], -1)
        elif known[step] or slots[step] not in gone:
            reports[step] = True
            gone.pop(slots[step], None)
            gone[slots[step]] = step
            if len(gone) > limit:
                del gone[next(iter(gone))]
    return Remembered(reports, restarts, np.array(list(gone.values()), np.int64))


def _left(owner: I64, place: I64, steps: I64, asked: I64, at: I64) -> I64:
    """How many each asked owner has right after a place, given steps of +1 and -1."""
    if not len(asked):
        return np.zeros(0, np.int64)
    owners, number = np.unique(np.concatenate([owner, asked]), return_inverse=True)
    own, of = number[: len(owner)], number[len(owner) :]
    order = np.lexsort((place, own))
    own, place, counts = own[order], place[order], np.concatenate([[0], np.cumsum(steps[order])])
    starts = np.searchsorted(own, np.arange(len(owners)))
    # Rows by owner and place: rows of an owner at the place come before the question about it.
    rank = np.lexsort((np.repeat([0, 1], [len(own), len(of)]), np.concatenate([place, at]), np.concatenate([own, of])))
    is_row = rank < len(own)
    upto = np.empty(len(of), np.int64)
    upto[rank[~is_row] - len(own)] = np.cumsum(is_row)[~is_row]
    found: I64 = counts[upto] - counts[starts[of]]
    return found
