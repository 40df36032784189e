"""The ends of transactions, found in rows of transaction_markers: for each record the next marker of its producer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.offsets.numbers import ABORT, COMMIT, I64, NEVER, Flags, Markers, next_marker
from kgroups_spark.tables.arrays import flags, numbers

# Columns of transaction_markers.
MARKER_COLUMNS = ("offsets_partition", "producer_id", "log_offset", "transaction_start_offset", "outcome")
PRODUCER_COLUMNS = ("offsets_partition", "producer_id", "log_offset")


@dataclass(frozen=True)
class Ends:
    """The ends of the transactions of n records: the log offset of the marker (NEVER: none), and whether it aborted."""

    log_offset: I64
    is_aborted: Flags

    def before(self, horizon: I64) -> Flags:
        return self.log_offset < horizon


class NextMarkers:
    """For each record (PRODUCER_COLUMNS) the next committing or aborting marker of its producer, among the markers
    added so far; `log_offset` NEVER: none follows."""

    def __init__(self, records: pa.Table) -> None:
        self._partition, self._producer, self._record = (numbers(records[name], none=-1) for name in PRODUCER_COLUMNS)
        self.log_offset = np.full(len(records), NEVER, np.int64)
        self.start_offset = np.full(len(records), NEVER, np.int64)
        self.is_aborted = np.zeros(len(records), np.bool_)

    def look(self, markers: pa.Table) -> None:
        """Adds rows of transaction_markers (MARKER_COLUMNS)."""
        wanted = pc.and_(pc.is_valid(markers["outcome"]), pc.is_valid(markers["producer_id"]))
        markers = markers.filter(wanted)
        of = numbers(markers["offsets_partition"])
        for partition in np.intersect1d(of, self._partition).tolist():
            self._look(np.flatnonzero(self._partition == partition), markers.filter(pa.array(of == partition)))

    def _look(self, at: I64, markers: pa.Table) -> None:
        log_offset, is_aborted = numbers(markers["log_offset"]), flags(pc.equal(markers["outcome"], "aborted"))
        outcome = np.where(is_aborted, ABORT, COMMIT)
        ends = Markers(log_offset, np.zeros_like(log_offset), numbers(markers["producer_id"]), outcome)
        number = next_marker(self._producer[at], self._record[at], ends)
        nearer = np.flatnonzero((number >= 0) & (log_offset[number] < self.log_offset[at]))
        at, number = at[nearer], number[nearer]
        self.log_offset[at] = log_offset[number]
        self.start_offset[at] = numbers(markers["transaction_start_offset"], none=NEVER)[number]
        self.is_aborted[at] = is_aborted[number]

    def places(self) -> dict[int, I64]:
        """The log offsets of the markers that follow a record, by offsets partition."""
        has = self.log_offset != NEVER
        partition, log_offset = self._partition[has], self.log_offset[has]
        return {number: np.unique(log_offset[partition == number]) for number in np.unique(partition).tolist()}


def ends_of(records: pa.Table, markers: Iterable[pa.Table]) -> Ends:
    """The ends of the records' transactions: a marker counts if its transaction began at or before the record."""
    following = NextMarkers(records)
    for some in markers:
        following.look(some.filter(pc.is_valid(some["transaction_start_offset"])))
    is_in = following.start_offset <= numbers(records["log_offset"])
    return Ends(np.where(is_in, following.log_offset, NEVER), following.is_aborted & is_in)
