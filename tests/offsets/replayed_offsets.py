"""Offsets replayed as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.replay import ALL_SLOTS, replay_offsets
from kgroups_spark.offsets.state import OffsetState
from tests.coordinator.replay_row import ReplayRow
from tests.offsets.log_tables import history_of

Row = dict[str, Any]


def replayed(rows: Sequence[ReplayRow], rules: Release, state: OffsetState | None = None, ranges=ALL_SLOTS):
    return replay_offsets(state or OffsetState.empty(), history_of(rows), rules, ranges)


def state_tables(state: OffsetState) -> tuple[pa.Table, ...]:
    return state.offsets, state.removed, state.noted, state.transactions


def state_rows(state: OffsetState) -> list[list[Row]]:
    return [table.to_pylist() for table in state_tables(state)]


def without_slots(table: pa.Table) -> list[Row]:
    """Rows without the numbers that are of one replay alone."""
    return [{name: value for name, value in row.items() if name != "slot"} for row in table.to_pylist()]
