"""The saved state by columns has the rows that a shard of objects saves, and gives the same state back."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.state import ENTRIES, LogState, loaded, saved
from tests.chosen import Chosen
from tests.coordinator.no_topics import NoTopics
from tests.coordinator.records import classic, classic_member
from tests.coordinator.replay_row import replay
from tests.coordinator.whole_state import everything
from tests.nights.reported_tables import unordered
from tests.offsets.random_logs import random_log
from tests.replay.replayed_shards import RELEASES, night
from tests.replay.state_entries import entries
from tests.twin.saved_shards import state_of
from tests.twin.shard import Shard


def shard_after(seed: int, version: str) -> Shard:
    shard = Shard(release(version), 0, recording=True)
    shard.topics = NoTopics()
    shard.record_events(night(version).event_rules(0))
    for row in random_log(seed):
        with suppress(ReplayFailure):
            replay(shard, row)
    return shard


def without_order(rows: Iterable[StateRow]) -> list[tuple[str, str | None, object]]:
    """The rows; a group's offsets have no order, its removed ones do."""
    reported = [(row.entry_type, row.group_id, json.loads(row.payload)) for row in rows]
    return sorted(((kind, group, of if kind == "removed" else unordered(of)) for kind, group, of in reported), key=str)


def table_of(rows: Iterable[StateRow]) -> pa.Table:
    """Entries of state format 1."""
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=ENTRIES)


def columns(state: LogState) -> dict[str, list[dict[str, object]]]:
    return {name: getattr(state.offsets, name).to_pylist() for name in OffsetState.__dataclass_fields__}


@pytest.mark.parametrize("version", RELEASES)
def test_columns_save_and_load_the_same_rows_as_objects(version: str, chosen: Chosen) -> None:
    kinds = set()
    for seed in chosen.some(range(40), 6):
        shard = shard_after(seed, version)
        rows = list(shard.save())
        assert without_order(entries(saved(state_of(shard)).to_pylist())) == without_order(rows), seed
        kinds |= {row.entry_type for row in rows}
        random.Random(seed).shuffle(rows)
        theirs = state_of(Shard.load(shard.release, 0, rows))
        as_today = saved(theirs)
        order = np.random.default_rng(seed).permutation(len(as_today))
        state = loaded(as_today.take(order), shard.release)
        assert without_order(entries(saved(loaded(table_of(rows), shard.release)).to_pylist())) == without_order(rows)
        for name, of in columns(state).items():
            assert sorted(map(str, of)) == sorted(map(str, columns(theirs)[name])), (seed, name)
        assert columns(state)["removed"] == columns(theirs)["removed"]
        assert state.shards[0].removed == theirs.shards[0].removed and state.groups.keys() == theirs.groups.keys()
        assert without_order(entries(saved(state).to_pylist())) == without_order(shard.save()), seed
    assert kinds >= ({"group", "producer", "removed"} if chosen.every else {"group"})


def test_rows_that_older_states_lack_or_have_beyond_these() -> None:
    removed = StateRow("removed", "g", '{"offsets": [["t", 0, 7, null, 3]]}')
    topics = StateRow("topics", None, '{"topics": []}')
    state = loaded(table_of([removed, topics]), release("4.3"))
    assert columns(state)["removed"] == [
        {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 7, "topic_id": None, "log_offset": 3}
    ]
    assert state.shards[0].removed == {}
    with pytest.raises(ValueError, match="type 'new'"):
        loaded(table_of([StateRow("new", None, "{}")]), release("4.3"))


def test_a_block_of_loaded_groups_decodes_members_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may hold the texts that surround a value."""
    log = everything().record(2, classic([classic_member(',"value":{},"value_version":3')]), group="odd")
    kept = saved(state_of(log.shard))
    one_by_one = loaded(kept, release("4.3"))
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", 1)
    state = loaded(kept, release("4.3"))
    on_demand = [
        group_id
        for group_id, group in state.groups.items()
        if isinstance(group, ClassicGroup) and group.members_on_demand is not None
    ]
    assert on_demand == ["classic", "odd"]
    assert saved(state).equals(kept) and saved(one_by_one).equals(kept)
    for group_id, group in state.groups.items():
        assert group.row(0) == one_by_one.groups[group_id].row(0)
        assert group.members == one_by_one.groups[group_id].members
