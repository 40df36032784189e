"""The saved state gives the same state back."""

from __future__ import annotations

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
from tests.coordinator.whole_state import everything
from tests.offsets.random_logs import random_log
from tests.replay.replayed_shards import RELEASES, night
from tests.twin.saved_shards import state_of
from tests.twin.shard import Shard


def shard_after(seed: int, version: str) -> Shard:
    shard = Shard(release(version), 0, recording=True)
    shard.topics = NoTopics()
    shard.record_events(night(version).event_rules(0))
    for row in random_log(seed):
        with suppress(ReplayFailure):
            shard.replay(row)
    return shard


def table_of(rows: Iterable[StateRow]) -> pa.Table:
    """Entries of state format 1."""
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=ENTRIES)


def columns(state: LogState) -> dict[str, list[dict[str, object]]]:
    return {name: getattr(state.offsets, name).to_pylist() for name in OffsetState.__dataclass_fields__}


@pytest.mark.parametrize("version", RELEASES)
def test_a_saved_state_in_any_order_is_the_same_state(version: str, chosen: Chosen) -> None:
    for seed in chosen.some(range(40), 6):
        state = state_of(shard_after(seed, version))
        entries = saved(state)
        again = loaded(entries.take(np.random.default_rng(seed).permutation(len(entries))), release(version))
        for name, of in columns(again).items():
            assert sorted(map(str, of)) == sorted(map(str, columns(state)[name])), (seed, name)
        assert columns(again)["removed"] == columns(state)["removed"]
        assert again.shards[0].removed == state.shards[0].removed and again.groups.keys() == state.groups.keys()
        assert sorted(map(str, saved(again).to_pylist())) == sorted(map(str, entries.to_pylist())), seed


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
