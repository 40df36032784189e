"""Steps of offsets that matter to groups, in log order.

Values create groups, tombstones remove offsets, and in the Scala coordinator a marker may remove a group's last offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.acts import RemovedCommit
from kgroups_spark.coordinator.removal_causes import RemovedValue
from kgroups_spark.offsets.numbers import Markers
from kgroups_spark.offsets.records import flags
from kgroups_spark.offsets.replay import ReplayedOffsets


class ValueStep(NamedTuple):
    """A value that may create a simple group."""

    log_offset: int
    log_timestamp: int | None
    group_id: str


class TombstoneStep(NamedTuple):
    """A tombstone. `removed` None: the removal is not reported. `takes_last`: the group holds no more offsets after
    it."""

    log_offset: int
    log_timestamp: int | None
    group_id: str
    batch_offset: int | None
    removed: RemovedCommit | None
    takes_last: bool


class MarkerStep(NamedTuple):
    """A marker after which groups hold no more offsets."""

    log_offset: int
    log_timestamp: int | None
    group_ids: list[str]


OffsetStep = ValueStep | TombstoneStep | MarkerStep


def offset_steps(replayed: ReplayedOffsets, markers: Markers, *, follow_offsets: bool) -> Iterator[OffsetStep]:
    """The steps in log order. `follow_offsets`: groups without metadata exist exactly as long as they hold offsets
    (Scala coordinator); otherwise only a group's first values count."""
    emptied = _emptied(replayed.holdings) if follow_offsets else {}
    steps: list[OffsetStep] = [*_value_steps(replayed.turns)]
    steps += _tombstone_steps(replayed.tombstones, emptied)
    steps += _last_pending_steps(replayed)
    steps += _marker_steps(markers, emptied)
    return iter(sorted(steps, key=lambda step: step.log_offset))


def _value_steps(turns: pa.Table) -> Iterator[ValueStep]:
    values = turns.filter(pc.invert(turns.column("is_tombstone")))
    return map(ValueStep, *(values.column(name).to_pylist() for name in ValueStep._fields))


def _last_pending_steps(replayed: ReplayedOffsets) -> Iterator[TombstoneStep]:
    """Scala coordinator: tombstones in a transaction that removed a group's last offset, one pending in the same
    transaction."""
    turns = replayed.turns.filter(replayed.turns.column("is_tombstone"))
    is_plain = pc.is_in(turns.column("log_offset"), replayed.tombstones.column("log_offset").combine_chunks())
    turns = _with_batches(turns.filter(pc.invert(is_plain)))
    for row in turns.to_pylist():
        place = (row["log_offset"], row["log_timestamp"], row["group_id"], row["batch_offset"])
        yield TombstoneStep(*place, removed=None, takes_last=True)


def _with_batches(rows: pa.Table) -> pa.Table:
    """The rows with the base offsets of their batches; null: not known."""
    return rows.append_column("batch_offset", pc.subtract(rows.column("log_offset"), rows.column("offset_delta")))


def _tombstone_steps(tombstones: pa.Table, emptied: dict[int, list[str]]) -> Iterator[TombstoneStep]:
    rows = _with_batches(tombstones).select(
        [
            "log_offset",
            "log_timestamp",
            "batch_offset",
            "group_id",
            "topic",
            "partition",
            *RemovedValue._fields,
            "removed_log_offset",
            "is_pending",
            "is_topic_left",
            "is_group_left",
            "is_reported",
        ]
    )
    for row in rows.to_pylist():
        removed = None
        if row["is_reported"]:
            value = None
            if row["removed_log_offset"] is not None:
                commit_timestamp = -1 if row["commit_timestamp"] is None else row["commit_timestamp"]
                fields = row | {"commit_timestamp": commit_timestamp}
                value = RemovedValue(*(fields[name] for name in RemovedValue._fields))
            slot = (row["group_id"], row["topic"], row["partition"])
            removed = RemovedCommit(slot, value, row["is_pending"], row["is_topic_left"], row["is_group_left"])
        place = (row["log_offset"], row["log_timestamp"], row["group_id"], row["batch_offset"])
        yield TombstoneStep(*place, removed, row["group_id"] in emptied.get(row["log_offset"], ()))


def _marker_steps(markers: Markers, emptied: dict[int, list[str]]) -> Iterator[MarkerStep]:
    if not emptied:
        return
    at = np.flatnonzero(np.isin(markers.log_offset, np.array(list(emptied))))
    for log_offset, time in zip(markers.log_offset[at].tolist(), markers.log_timestamp[at].tolist(), strict=True):
        yield MarkerStep(log_offset, None if time == -1 else time, sorted(emptied[log_offset]))


def _emptied(holdings: pa.Table) -> dict[int, list[str]]:
    """The groups that hold no more offsets from a log offset on, by that offset."""
    has_any = flags(holdings, "has_committed") | flags(holdings, "has_pending")
    found: dict[int, list[str]] = {}
    gone = holdings.filter(pa.array(~has_any))
    for log_offset, group_id in zip(gone.column("since").to_pylist(), gone.column("group_id").to_pylist(), strict=True):
        found.setdefault(log_offset, []).append(group_id)
    return found
