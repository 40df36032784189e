"""Columns of numbers: log offsets and owners as sort keys, and the next marker of a producer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

# A place after every log offset, for events that have not happened.
NEVER = int(np.iinfo(np.int64).max)
# A marker's outcome. NEITHER: a control record of another type.
COMMIT, ABORT, NEITHER = 1, 0, -1
# Keys stay below this, so that they can be added to.
LARGEST_KEY = 1 << 62


@dataclass(frozen=True, eq=False)
class Markers:
    """k control records, ascending by log offset. Times in ms, -1 for none; `outcome` is COMMIT, ABORT or NEITHER."""

    log_offset: I64
    log_timestamp: I64
    producer_id: I64
    outcome: I64

    def __len__(self) -> int:
        return len(self.log_offset)

    def only(self, which: Flags) -> Markers:
        return Markers(self.log_offset[which], self.log_timestamp[which], self.producer_id[which], self.outcome[which])

    def ends(self) -> Markers:
        """The markers with outcome COMMIT or ABORT."""
        return self.only(self.outcome != NEITHER)


@dataclass(frozen=True, eq=False)
class Places:
    """Log offsets as numbers from 0 to `span` - 1, so that an owner and a place make one sort key.

    The numbers ascend as the offsets do. NEVER is the last one.

        Places.over(2, [5, 9]).keys(owner=[0, 1], log_offset=[9, 5])  ->  [4, 6]    (span 6, lowest offset 5)
    """

    span: int
    _low: int
    _known: I64 | None

    @classmethod
    def over(cls, owners: int, *log_offsets: I64) -> Places:
        """Places for these log offsets (and NEVER) of so many owners."""
        some = [each[each != NEVER] for each in log_offsets]
        low = min((int(each.min()) for each in some if len(each)), default=0)
        high = max((int(each.max()) for each in some if len(each)), default=0)
        if (high - low + 2) * max(owners, 1) < LARGEST_KEY:
            return cls(high - low + 2, low, None)
        known = np.unique(np.concatenate([np.zeros(0, np.int64), *some]))
        return cls(len(known) + 1, low, known)

    def of(self, log_offset: I64) -> I64:
        """The places of log offsets that were given to `over`."""
        if self._known is not None:
            return np.searchsorted(self._known, log_offset)
        return np.minimum(log_offset - self._low, self.span - 1)

    def keys(self, owner: I64, log_offset: I64) -> I64:
        """One number for each owner and log offset, ascending by both."""
        keys: I64 = owner * self.span + self.of(log_offset)
        return keys


def sorted_order(keys: I64) -> I64:
    """The order of the keys. Parts of history are sorted already, and the stable sort merges such runs cheaply."""
    return np.argsort(keys, kind="stable")


def starts_of(*columns: NDArray) -> Flags:
    """Marks the rows, of rows in order, at which one of the columns differs from the row before."""
    starts = np.ones(len(columns[0]), np.bool_)
    starts[1:] = False
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def lasts_of(*columns: NDArray) -> Flags:
    """Marks the rows, of rows in order, at which one of the columns differs from the next row."""
    lasts = np.ones(len(columns[0]), np.bool_)
    lasts[:-1] = starts_of(*columns)[1:]
    return lasts


def latest_at(owner: I64, since: I64, asked: I64, at: I64) -> I64:
    """For each asked owner and log offset the owner's last row up to there; -1: it has none. Rows are by owner and
    `since`.

        rows (0, @12) (0, @15) (2, @13), asked (0, @14) (1, @14) (2, @12)  ->  [0, -1, -1]
    """
    if not len(owner):
        return np.full(len(asked), -1)
    places = Places.over(int(max(owner.max(), asked.max(initial=0))) + 1, since, at)
    found = np.searchsorted(places.keys(owner, since), places.keys(asked, at), side="right") - 1
    return np.where((found >= 0) & (owner[found] == asked), found, -1)


def next_marker(producer_id: I64, log_offset: I64, markers: Markers) -> I64:
    """For each record the index of its producer's next marker; -1: none follows.

    The marker's epoch is not compared: since KIP-890 it is one above the transaction's (T25).

        records (7, @10) (8, @11) (7, @13), markers [(7, @12)]  ->  [0, -1, -1]
    """
    if not len(markers) or not len(log_offset):
        return np.full(len(log_offset), -1, np.int64)
    producers, number = np.unique(markers.producer_id, return_inverse=True)
    places = Places.over(len(producers), log_offset, markers.log_offset)
    marker_keys = places.keys(number, markers.log_offset)
    order = np.argsort(marker_keys)
    own = np.minimum(np.searchsorted(producers, producer_id), len(producers) - 1)
    at = np.searchsorted(marker_keys[order], places.keys(own, log_offset), side="right")
    found = order[np.minimum(at, len(order) - 1)]
    is_own = (at < len(order)) & (markers.producer_id[found] == producer_id)
    return np.where(is_own, found, -1)
