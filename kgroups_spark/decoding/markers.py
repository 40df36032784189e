"""Control records of a range. Only the replay knows which transaction each of them ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.offsets.numbers import ABORT, COMMIT, I64, NEITHER, Markers
from kgroups_spark.records import control
from kgroups_spark.records.columns import RecordColumns

OUTCOMES = {control.ABORT: ABORT, control.COMMIT: COMMIT}


class Marker(NamedTuple):
    """A control record. Time in ms; -1: no time, no producer. `outcome` is COMMIT, ABORT or NEITHER."""

    log_offset: int
    log_timestamp: int
    producer_id: int
    producer_epoch: int
    control_type: int
    coordinator_epoch: int | None
    outcome: int


def read_markers(records: RecordColumns, rows: I64) -> tuple[list[Marker], list[tuple[int, Undecodable]]]:
    """The control records at `rows`, and (row, reason) of those with an unreadable key."""
    markers: list[Marker] = []
    unreadable: list[tuple[int, Undecodable]] = []
    for row in rows.tolist():
        key, value = records.key(row), records.value(row)
        kind = control.control_type(key)
        if kind is None:
            reason = "null_key" if key is None else "truncated"
            detail = f"key of a control record has {0 if key is None else len(key)} bytes, 4 are needed"
            unreadable.append((row, Undecodable(reason=reason, detail=detail)))
        else:
            markers.append(_marker(records, row, kind, control.coordinator_epoch(value)))
    return markers, unreadable


def _marker(records: RecordColumns, row: int, control_type: int, coordinator_epoch: int | None) -> Marker:
    batch = int(records.batch[row])
    return Marker(
        int(records.offset[row]),
        int(records.timestamp[row]),
        int(records.batches.producer_id[batch]),
        int(records.batches.producer_epoch[batch]),
        control_type,
        coordinator_epoch,
        OUTCOMES.get(control_type, NEITHER),
    )


def ends(markers: list[Marker]) -> Markers:
    """The markers that commit or abort, as arrays."""
    facts = [(each.log_offset, each.log_timestamp, each.producer_id, each.outcome) for each in markers]
    columns = np.array(facts, np.int64).reshape(-1, 4)
    return Markers(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3]).ends()
