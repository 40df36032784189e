"""The outcomes of transactional rows of a range: rows wait here until their producer's next marker is read.

A row of a transaction that is open at the end of the range keeps a null outcome. So one pass over the bytes is enough,
and memory holds only the rows of open transactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.offsets.numbers import ABORT, COMMIT, Markers, next_marker
from kgroups_spark.tables.rows import with_columns

OUTCOME_NAMES = {COMMIT: "committed", ABORT: "aborted"}


@dataclass
class OpenRows:
    """Rows of offset_commits in transactions without a marker so far."""

    _held: list[tuple[pa.RecordBatch, NDArray[np.int64]]] = field(default_factory=list)

    def settle(
        self,
        batch: pa.RecordBatch,
        producer_id: NDArray[np.int64],
        is_transactional: NDArray[np.bool_],
        markers: Markers,
    ) -> list[pa.RecordBatch]:
        """The rows, including older ones, with a known outcome after this chunk; the others are kept."""
        done = [self._settle_held(markers)] if self._held and len(markers) else []
        transactional = np.nonzero(is_transactional)[0]
        if not len(transactional):
            return [part for part in (*done, batch) if part.num_rows]
        offsets = batch.column("log_offset").to_numpy()
        outcome, marker_offset = _outcomes(producer_id[transactional], offsets[transactional], markers)
        waiting = np.zeros(len(offsets), np.bool_)
        waiting[transactional] = marker_offset < 0
        all_outcomes, all_offsets = np.full(len(offsets), -2, np.int64), np.full(len(offsets), -1, np.int64)
        all_outcomes[transactional], all_offsets[transactional] = outcome, marker_offset
        self._hold(batch, producer_id, waiting)
        settled = _with_outcomes(batch, all_outcomes, all_offsets)
        done.append(settled.take(pa.array(np.nonzero(~waiting)[0])) if waiting.any() else settled)
        return [part for part in done if part.num_rows]

    def rest(self) -> list[pa.RecordBatch]:
        """The rows of transactions that are open at the end of the range."""
        return [batch for batch, _ in self._held]

    def _hold(self, batch: pa.RecordBatch, producer_id: NDArray[np.int64], waiting: NDArray[np.bool_]) -> None:
        rows = np.nonzero(waiting)[0]
        if len(rows):
            self._held.append((batch.take(pa.array(rows)), producer_id[rows]))

    def _settle_held(self, markers: Markers) -> pa.RecordBatch:
        (whole,) = pa.Table.from_batches([batch for batch, _ in self._held]).combine_chunks().to_batches()
        producers = np.concatenate([producer_id for _, producer_id in self._held])
        outcome, marker_offset = _outcomes(producers, whole.column("log_offset").to_numpy(), markers)
        ended = np.nonzero(marker_offset >= 0)[0]
        self._held = []
        self._hold(whole, producers, marker_offset < 0)
        return _with_outcomes(whole, outcome, marker_offset).take(pa.array(ended))


def _outcomes(
    producer_id: NDArray[np.int64], log_offset: NDArray[np.int64], markers: Markers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row COMMIT, ABORT or NEITHER, and the marker's log offset (-1: no marker follows)."""
    at = next_marker(producer_id, log_offset, markers)
    known = at >= 0
    if not known.any():
        return np.full(len(at), -2), at
    return np.where(known, markers.outcome[at], -2), np.where(known, markers.log_offset[at], -1)


def _with_outcomes(
    batch: pa.RecordBatch, outcome: NDArray[np.int64], marker_offset: NDArray[np.int64]
) -> pa.RecordBatch:
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.where(outcome == COMMIT, 0, 1).astype(np.int8), mask=(outcome != COMMIT) & (outcome != ABORT)),
        pa.array([OUTCOME_NAMES[COMMIT], OUTCOME_NAMES[ABORT]]),
    )
    offsets = pa.array(marker_offset, mask=marker_offset < 0)
    return with_columns(batch, outcome=names, marker_offset=offsets)
