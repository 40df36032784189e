"""How the transactions of a range ended, row by row: rows wait here until their producer's next marker is read.

A record that is open at the end of the range leaves without an outcome. So one pass over the bytes is enough, and what
is held is as much as the open transactions wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.offsets.numbers import ABORT, COMMIT, Markers, next_marker

OUTCOME_NAMES = {COMMIT: "committed", ABORT: "aborted"}


@dataclass
class OpenRows:
    """Rows of offset_commits whose transaction's marker has not been read yet, with a sort key (`code`) per row."""

    _held: list[tuple[pa.RecordBatch, NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=list)

    def settle(
        self,
        batch: pa.RecordBatch,
        codes: NDArray[np.int64],
        producer_id: NDArray[np.int64],
        is_transactional: NDArray[np.bool_],
        markers: Markers,
    ) -> list[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """The rows, older ones included, whose outcome is known after this chunk; the others are kept back."""
        done = [self._settle_held(markers)] if self._held and len(markers) else []
        transactional = np.nonzero(is_transactional)[0]
        if not len(transactional):
            return [part for part in [*done, (batch, codes)] if part and len(part[1])]
        offsets = batch.column("log_offset").to_numpy()
        outcome, marker_offset = _outcomes(producer_id[transactional], offsets[transactional], markers)
        waiting = np.zeros(len(codes), np.bool_)
        waiting[transactional] = marker_offset < 0
        all_outcomes, all_offsets = np.full(len(codes), -2, np.int64), np.full(len(codes), -1, np.int64)
        all_outcomes[transactional], all_offsets[transactional] = outcome, marker_offset
        self._hold(batch, codes, producer_id, waiting)
        told = _with_outcomes(batch, all_outcomes, all_offsets)
        ready = np.nonzero(~waiting)[0]
        done.append((told if len(ready) == len(codes) else told.take(pa.array(ready)), codes[ready]))
        return [part for part in done if part and len(part[1])]

    def rest(self) -> list[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """The rows whose transaction is open at the end of the range."""
        return [(batch, codes) for batch, codes, _ in self._held]

    def _hold(
        self,
        batch: pa.RecordBatch,
        codes: NDArray[np.int64],
        producer_id: NDArray[np.int64],
        waiting: NDArray[np.bool_],
    ) -> None:
        rows = np.nonzero(waiting)[0]
        if len(rows):
            self._held.append((batch.take(pa.array(rows)), codes[rows], producer_id[rows]))

    def _settle_held(self, markers: Markers) -> tuple[pa.RecordBatch, NDArray[np.int64]] | None:
        batch = pa.Table.from_batches([b for b, _, _ in self._held]).combine_chunks()
        codes = np.concatenate([c for _, c, _ in self._held])
        producers = np.concatenate([p for _, _, p in self._held])
        outcome, marker_offset = _outcomes(producers, batch.column("log_offset").to_numpy(), markers)
        ended = np.nonzero(marker_offset >= 0)[0]
        whole = batch.to_batches()[0]
        self._held = []
        self._hold(whole, codes, producers, marker_offset < 0)
        if not len(ended):
            return None
        return _with_outcomes(whole, outcome, marker_offset).take(pa.array(ended)), codes[ended]


def _outcomes(
    producer_id: NDArray[np.int64], log_offset: NDArray[np.int64], markers: Markers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per row COMMIT, ABORT, NEITHER and the marker's offset, -1 where none follows."""
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
    batch = batch.set_column(batch.schema.get_field_index("outcome"), "outcome", names)
    return batch.set_column(batch.schema.get_field_index("marker_offset"), "marker_offset", offsets)
