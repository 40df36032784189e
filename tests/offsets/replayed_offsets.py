"""Offsets replayed as columns, and by the twin of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.offsets.columns import NEVER, SlotRange
from kgroups_spark.offsets.effects import Quiet
from kgroups_spark.offsets.replay import ALL_SLOTS, ReplayedOffsets, climb_events, fold_range, replay_offsets
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay import rows as replay_rows
from tests.coordinator.replay_row import ReplayRow
from tests.offsets.log_tables import history_of
from tests.offsets.twin import Twin, groups_alone

Row = dict[str, Any]


def replayed(rows: Sequence[ReplayRow], rules: Release, state: OffsetState | None = None, ranges=ALL_SLOTS):
    return replay_offsets(state or OffsetState.empty(), history_of(rows), rules, ranges)


def current_tables(found: ReplayedOffsets, groups: Sequence[str]) -> dict[str, list[Row]]:
    return {
        "committed_offsets": replay_rows.committed_rows(found, [(0, name) for name in groups], audit_id=1).to_pylist(),
        "pending_offsets": replay_rows.pending_rows(found, audit_id=1).to_pylist(),
        "open_transactions": replay_rows.open_transaction_rows(found, audit_id=1).to_pylist(),
    }


def assert_as_the_twin(rows: Sequence[ReplayRow], rules: Release, ranges=ALL_SLOTS) -> None:
    twin, found = Twin(rows, rules), replayed(rows, rules, ranges=ranges)
    now = current_tables(found, list(twin.shard.groups))
    for name, ours in now.items():
        expected = twin.rows(name)
        if name == "pending_offsets":
            ours, expected = sorted(ours, key=by_producer), sorted(expected, key=by_producer)
        assert ours == expected, name
    failures = replay_rows.failure_rows(found, audit_id=1)
    assert pairs(failures, "log_offset", "detail") == twin.failures
    history = history_of(rows)
    ended = replay_rows.ended_columns(found.transactions, history.markers).to_pylist()
    assert [tuple(row.values()) for row in ended] == twin.ended
    assert_removals(found, twin)
    assert moves_of(found.moves) == moves_of_twin(twin, "offset_rewound", "offset_restarted", "topic_recreated")
    if rules.open_transactions_by == "group":
        noted = twin.shard.offsets.noted_producers
        expected = sorted((group_id, producer) for group_id, producers in noted.items() for producer in producers)
        assert pairs(found.state.noted, "group_id", "producer_id") == expected
    assert_holdings(found, twin)
    alone = groups_alone(rows, rules, found.turns.to_pylist(), found.holdings.to_pylist())
    assert alone == (list(twin.shard.group_rows()), twin.shard.take_changes())
    if ranges is ALL_SLOTS:
        assert_climbs(rows, rules, twin)


def assert_removals(found: ReplayedOffsets, twin: Twin) -> None:
    known = [row for row in found.tombstones.to_pylist() if row["removed_log_offset"] is not None]
    ours = {row["log_offset"]: (row["is_pending"], row["is_topic_left"], row["is_group_left"]) for row in known}
    assert ours == twin.listener.facts
    names = ("log_offset", "log_timestamp", "group_id", "topic", "partition", "committed_offset")
    reported = found.tombstones.filter(found.tombstones.column("is_reported"))
    events = sorted((e for e in twin.events if e.event == "offset_removed"), key=lambda e: e.log_offset)
    assert pairs(reported, *names) == [
        (e.log_offset, e.log_timestamp, e.group_id, e.topic, e.partition, e.offset_before) for e in events
    ]
    remembered = [(*slot, *gone) for slot, gone in twin.shard.removed.items()]
    assert pairs(found.state.removed, *found.state.removed.column_names) == remembered


def assert_holdings(found: ReplayedOffsets, twin: Twin) -> None:
    held: dict[str, list[Row]] = {}
    for row in found.holdings.to_pylist():
        held.setdefault(row["group_id"], []).append(row)
    for log_offset, (committed, pending) in twin.holding.items():
        newest = [rows[-1] for of in held.values() if (rows := [row for row in of if row["since"] <= log_offset])]
        assert {row["group_id"] for row in newest if row["has_committed"]} == committed
        assert {row["group_id"] for row in newest if row["has_pending"]} == pending


def assert_climbs(rows: Sequence[ReplayRow], rules: Release, twin: Twin) -> None:
    history = history_of(rows)
    folded = fold_range(OffsetState.empty(), history, rules, SlotRange())
    groups = folded.commits.slots.groups.to_pylist()
    spans = [
        (groups.index(g), since, NEVER if until is None else until) for g, since, until in twin.quiet if g in groups
    ]
    columns = np.array(sorted(spans), np.int64).reshape(-1, 3)
    found = climb_events(folded, Quiet(columns[:, 0], columns[:, 1], columns[:, 2]), history.markers)
    assert moves_of(found) == moves_of_twin(twin, "offset_skipped")


def state_tables(state: OffsetState) -> tuple[pa.Table, ...]:
    return state.offsets, state.removed, state.noted, state.transactions


def state_rows(state: OffsetState) -> list[list[Row]]:
    return [table.to_pylist() for table in state_tables(state)]


def without_slots(table: pa.Table) -> list[Row]:
    """Rows without the numbers that are of one replay alone."""
    return [{name: value for name, value in row.items() if name != "slot"} for row in table.to_pylist()]


def pairs(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.select(names).to_pylist()]


def by_producer(row: Row) -> tuple[Any, ...]:
    return row["producer_id"], row["group_id"], row["topic"], row["partition"]


MOVE = ("log_offset", "log_timestamp", "event_timestamp", "group_id", "topic", "partition", "event", "offset_before")
MOVE = (*MOVE, "offset_after", "value_before", "value_after", "cause")


def moves_of(events: pa.Table) -> list[tuple[Any, ...]]:
    """Events, without those causes that groups decide; a commit time of -1 is none."""
    return pairs(events, *MOVE)


def moves_of_twin(twin: Twin, *names: str) -> list[tuple[Any, ...]]:
    ours = sorted((e for e in twin.events if e.event in names), key=lambda e: (e.log_offset, e.event_index))
    by_groups = ("with_members", "no_members", "self_assigned", "unknown")
    return [
        tuple(
            None
            if (field == "cause" and e.cause in by_groups and e.event != "offset_skipped")
            or (field == "event_timestamp" and e.event_timestamp == -1)
            else getattr(e, field)
            for field in MOVE
        )
        for e in ours
    ]
