"""Control records of a range, and the transactions that they end.

Where a transaction began is known here only behind an earlier marker of the same producer in the range, unless the
range
begins the log. The rows of the other markers are written by the replay, which knows what was open before (`deferred`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.audit.reduce_range import KeptMarker
from kgroups_spark.coordinator.reduce_columns import ABORT, COMMIT, NEITHER, MarkerFacts
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.records.columns import RecordColumns

# ControlRecordType.java, 4.3.1
OUTCOMES = {0: ABORT, 1: COMMIT}

I64 = NDArray[np.int64]


@dataclass
class OpenTransaction:
    """A producer's transaction since its last marker."""

    start_offset: int
    offset_count: int = 0
    group_ids: set[str] = field(default_factory=set)


class TransactionalRecord(NamedTuple):
    """A record with the transactional bit. `value_of`: the group whose offset its value commits, else None."""

    log_offset: int
    producer_id: int
    value_of: str | None


@dataclass(frozen=True)
class EndedTransaction:
    """A marker and what it ended; start_offset is None where there was nothing."""

    marker: KeptMarker
    start_offset: int | None
    offset_count: int
    group_ids: list[str]


@dataclass
class RangeMarkers:
    """Follows the markers of a range, chunk by chunk."""

    begins_log: bool = False
    deferred: set[int] = field(default_factory=set)
    _known: set[int] = field(default_factory=set)
    _open: dict[int, OpenTransaction] = field(default_factory=dict)

    def read(self, records: RecordColumns, rows: I64) -> tuple[list[KeptMarker], list[tuple[int, Undecodable]]]:
        """The control records among `rows`, and those that are none by their bytes."""
        markers: list[KeptMarker] = []
        unreadable: list[tuple[int, Undecodable]] = []
        for row in rows.tolist():
            key, value = records.key(row), records.value(row)
            if key is None or len(key) < 4:
                reason = "null_key" if key is None else "truncated"
                detail = f"key of a control record has {0 if key is None else len(key)} bytes, 4 are needed"
                unreadable.append((row, Undecodable(reason=reason, detail=detail)))
            else:
                markers.append(_marker(records, row, key, value))
        return markers, unreadable

    def close(self, rows: list[TransactionalRecord], markers: list[KeptMarker]) -> list[EndedTransaction]:
        """The transactions that the chunk's markers end and whose beginning is known.

        `rows` are the chunk's transactional records, in log order.
        """
        ended: list[EndedTransaction] = []
        at = 0
        for marker in markers:
            while at < len(rows) and rows[at].log_offset < marker.log_offset:
                self._add(rows[at])
                at += 1
            if marker.outcome == NEITHER:
                # It ends nothing for the Java coordinator: see Shard.end_transaction.
                ended.append(EndedTransaction(marker, None, 0, []))
            elif self.begins_log or marker.producer_id in self._known:
                ended.append(self._end(marker))
            else:
                self._known.add(marker.producer_id)
                self.deferred.add(marker.log_offset)
        for row in rows[at:]:
            self._add(row)
        return ended

    def _end(self, marker: KeptMarker) -> EndedTransaction:
        open_ = self._open.pop(marker.producer_id, None)
        if open_ is None:
            return EndedTransaction(marker, None, 0, [])
        return EndedTransaction(marker, open_.start_offset, open_.offset_count, sorted(open_.group_ids))

    def _add(self, record: TransactionalRecord) -> None:
        if self.begins_log or record.producer_id in self._known:
            open_ = self._open.setdefault(record.producer_id, OpenTransaction(record.log_offset))
            if record.value_of is not None:
                open_.offset_count += 1
                open_.group_ids.add(record.value_of)


def _marker(records: RecordColumns, row: int, key: bytes, value: bytes | None) -> KeptMarker:
    control_type = struct.unpack_from(">h", key, 2)[0]
    coordinator_epoch = struct.unpack_from(">i", value, 2)[0] if value is not None and len(value) >= 6 else None
    batch = int(records.batch[row])
    return KeptMarker(
        int(records.offset[row]),
        int(records.timestamp[row]),
        int(records.batches.producer_id[batch]),
        int(records.batches.producer_epoch[batch]),
        control_type,
        coordinator_epoch,
        OUTCOMES.get(control_type, NEITHER),
    )


def marker_facts(markers: list[KeptMarker]) -> MarkerFacts:
    """Those of the markers that end something, as arrays."""
    ends = [(m.log_offset, m.producer_id, m.outcome) for m in markers if m.outcome != NEITHER]
    facts = np.array(ends, np.int64).reshape(-1, 3)
    return MarkerFacts(facts[:, 0], facts[:, 1], facts[:, 2])
