"""A carried state compared with the log: differences of substance, entry by entry."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.releases import Topics, release
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.corrections import CorrectedAt, Correction, HistoryReplay, corrected, corrections
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.state import ENTRIES, LogState, loaded, saved
from kgroups_spark.tables.schemas import LOG_TABLES, arrow_schema
from tests.coordinator.records import (
    Log,
    X,
    classic,
    classic_member,
    consumer_member,
    current,
    epoch,
    everything,
    share_member,
    streams_member,
    target,
    topology,
)
from tests.lake.table_rows import rows_of
from tests.messages.group_record_bytes import KEY, members
from tests.offsets.log_tables import shard_history
from tests.offsets.random_logs import random_log
from tests.replay.replayed_shards import RELEASES, night, replayed


def found(carried, reported):
    return found_between(carried.state, reported.state)


def found_between(carried, reported):
    """Whether it is gone, type, and group or producer."""
    rows = corrections(carried, reported)
    reported = [(row, row.group_id or json.loads(row.payload)["producer_id"]) for row in rows]
    return [("gone" if row.is_gone else "put", row.entry_type, whose) for row, whose in reported]


@pytest.mark.parametrize("version", ["4.3", "4.1", "4.0.0", "3.9", "2.8"])
def test_saving_and_loading_does_not_change_a_state(version):
    """In any order of its entries."""
    state = everything(version).state
    entries = saved(state)
    again = loaded(entries.take(list(reversed(range(len(entries))))), release(version))
    assert found_between(state, again) == found_between(again, state) == []


def test_where_and_since_when_a_group_is_in_the_log_makes_no_difference():
    def log():
        made = Log().record(5, consumer_member(), "m", group="c").record(3, epoch(2), group="c")
        made.record(10, share_member(), "m", group="s").record(19, streams_member(), "m", group="st")
        return made.record(2, classic([classic_member("m")]), group="classic").record(23, topology(1), group="st")

    again = log().record(3, epoch(2), group="c").record(5, consumer_member(), "m", group="c")
    again.record(2, classic([classic_member("m")]), group="classic").record(19, streams_member(), "m", group="st")
    assert again.group("c").log_offset != log().group("c").log_offset
    assert found(again, log()) == []


def test_every_record_that_the_log_no_longer_has_is_reported():
    def member(group):
        return Log().record(5, consumer_member(), "m", group=group).record(8, current(3, 0), "m", group=group)

    for less in (
        member("g").record(7, target(0), "m"),
        member("g").record(16, {"topics": ["t"]}, "r"),
        member("g").record(6, {"assignmentEpoch": 3, "assignmentTimestamp": 0}),
        member("g").record(3, epoch(9)),
        member("g").record(5, consumer_member(), "n"),
        member("g").record(8, current(4, 0), "m"),
        member("g").commit(1, topic_id=X),
    ):
        assert found(less, member("g")) == [("put", "group", "g")]
        assert found(member("g"), less) == [("put", "group", "g")]
    assert found(member("g"), Log()) == [("gone", "group", "g")]


def test_a_partition_without_an_owner_is_a_difference_and_an_empty_assignment_is_none():
    stale = Log().record(8, current(5, 0), "m").record(8, current(6, 0), "n").record(8, current(7), "n")
    fresh = Log().record(8, current(5, 0), "m").record(8, current(7), "n")
    assert found(stale, fresh) == [("put", "group", "g")]
    empty = Log().record(8, current(5, 0), "m").record(8, current(6), "m")
    assert found(empty, Log().record(8, current(6), "m")) == []


def test_an_equal_group_keeps_its_carried_row_and_takes_the_logs_offsets():
    carried = Log().record(2, classic()).record(2, classic()).commit(1).commit(2, "u")
    reported = Log().record(2, classic()).commit(1)
    (row,) = corrections(carried.state, reported.state)
    payload = json.loads(row.payload)
    assert payload["group"]["log_offset"] == 1
    assert payload["offsets"] == [["t", 0, 1, 1, -1, 1, None, "", 10**12, None, None, 3]]


def test_a_group_whose_metadata_is_gone_becomes_the_simple_group_of_its_offsets():
    carried, reported = Log().commit(1).record(2, classic()).record(2, None), Log().commit(1)
    assert carried.states() == {}
    assert found(carried, reported) == [("put", "group", "g")]


def test_open_transactions_are_those_of_the_log():
    carried = Log().commit(1, producer=1).commit(2, producer=2).tombstone()
    assert found(carried, Log().commit(1, producer=1)) == [("put", "producer", 1), ("gone", "producer", 2)]
    assert found(Log().commit(2, producer=2), Log().commit(2, producer=2)) == []


def test_producers_that_leaked_are_forgotten_with_the_log():
    def leaked():
        return Log("4.0.0").commit(1).commit(2, producer=5).tombstone().end(5, "committed")

    assert leaked().state.offsets.noted.to_pylist() == [{"number": 0, "group_id": "g", "producer_id": 5}]
    assert found(leaked(), Log("4.0.0").commit(1).tombstone()) == [("gone", "noted", "g")]
    assert found(Log("4.0.0").commit(1).tombstone(), leaked()) == [("put", "noted", "g")]


@pytest.mark.parametrize("version", ["4.3", "4.0.0", "3.9"])
def test_corrections_applied_leave_no_difference(version):
    carried = everything(version)
    reported = Log(version).commit(3, group="h").commit(2, "u", producer=2).record(2, classic(), group="c")
    was, right = carried.state, reported.state
    found = list(corrections(was, right))
    now = corrected(was, found, release(version))
    assert list(corrections(now, right)) == []
    assert now.groups.keys() == right.groups.keys()
    for name in ("offsets", "noted", "transactions"):
        assert columns(now)[name] == columns(right)[name]


def test_corrections_leave_all_other_entries_unchanged():
    state = everything("4.0.0").state
    now = corrected(state, [Correction("group", "c", None)], release("4.0.0"))
    assert found_between(state, now) == [("gone", "group", "c")]
    assert corrected(state, [], release("4.0.0")).groups.keys() == state.groups.keys()


# The replay of history in which the state was corrected.
NIGHT = Night(1, "4.3", 50, Topics())
REMOVED = Correction("group", "grp", None)


def history_of(value):
    """The value alone, at offset 3."""
    record = GroupRecordDecoder().decode(KEY, value)
    of_record = {name: getattr(record, name) for name in ("record_type", "record_name", "group_id", "value_version")}
    rows = rows_of("group_records", {"log_offset": 3, **of_record, "value": record.value_json()})
    commits, _, markers, quarantine = (arrow_schema(name).empty_table() for name in LOG_TABLES)
    return shard_history((commits, rows, markers, quarantine))


def replay_of(history, *corrections):
    """A replay that has ended, and the versions of members that it reported."""
    replay = HistoryReplay(NIGHT, LogState(), history, corrections=corrections)
    reported = [row for name, rows in replay.changes() if name == "group_member_versions" for row in rows.to_pylist()]
    return replay, sorted((row["log_offset"], row["member_id"], row["is_removed"]) for row in reported)


def versions(history, correction, log_offset):
    return replay_of(history, CorrectedAt(log_offset, [correction]))[1]


def saved_group(history):
    """The group as the state has it after the history."""
    (row,) = (row for row in saved(replay_of(history)[0].state).to_pylist() if row["entry_type"] == "group")
    return str(row["payload"])


@pytest.mark.parametrize("block_at_bytes", [1, 1 << 20], ids=["members on demand", "members in the record"])
def test_members_of_a_group_that_is_corrected_away_leave_versions(block_at_bytes, monkeypatch):
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", block_at_bytes)
    joined, gone = (
        [(at, f"m{number}", is_removed) for number in range(3)] for at, is_removed in ((3, False), (8, True))
    )
    assert versions(history_of(members(3)), REMOVED, 9) == joined + gone
    # In the place of those that the record left.
    assert versions(history_of(members(3)), REMOVED, 4) == [(3, member_id, True) for _, member_id, _ in gone]


def test_a_corrected_group_leaves_versions_of_its_differences(monkeypatch):
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", 1)
    two = json.loads(saved_group(history_of(members(2))))
    two["group"]["value"]["members"][1]["clientId"] = "another"
    right = Correction("group", "grp", json.dumps(two))
    assert versions(history_of(members(3)), right, 9) == [
        *((3, f"m{number}", False) for number in range(3)),
        (8, "m1", False),
        (8, "m2", True),
    ]


# The saved state gives the same state back.


def table_of(rows):
    """Entries of state format 1."""
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=ENTRIES)


def columns(state):
    """Removals in their order. Entries have no times of records, no batches, and not the bit of their transactions."""
    not_saved = ["log_timestamp", "offset_delta", "is_transactional"]
    offsets = state.offsets._replace(offsets=state.offsets.offsets.drop_columns(not_saved))
    rows = {name: getattr(offsets, name).to_pylist() for name in OffsetState._fields}
    return {name: of if name == "removed" else sorted(of, key=str) for name, of in rows.items()}


@pytest.mark.parametrize("version", RELEASES)
def test_a_saved_state_in_any_order_is_the_same_state(version, chosen):
    for seed in chosen.some(range(40), 6):
        _, state = replayed(random_log(seed), night(version))
        entries = saved(state)
        again = loaded(entries.take(np.random.default_rng(seed).permutation(len(entries))), release(version))
        assert columns(again) == columns(state), seed
        assert again.shards[0].removed == state.shards[0].removed and again.groups.keys() == state.groups.keys()
        assert sorted(map(str, saved(again).to_pylist())) == sorted(map(str, entries.to_pylist())), seed


def test_rows_that_older_states_lack_or_have_beyond_these():
    removed = StateRow("removed", "g", '{"offsets": [["t", 0, 7, null, 3]]}')
    topics = StateRow("topics", None, '{"topics": []}')
    state = loaded(table_of([removed, topics]), release("4.3"))
    assert columns(state)["removed"] == [
        {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 7, "topic_id": None, "log_offset": 3}
    ]
    assert state.shards[0].removed == {}
    with pytest.raises(ValueError, match="type 'new'"):
        loaded(table_of([StateRow("new", None, "{}")]), release("4.3"))


def test_a_block_of_loaded_groups_decodes_members_on_demand(monkeypatch):
    """A name may hold the texts that surround a value: such a value has escapes, and is not in the block."""
    log = everything().record(2, classic([classic_member(',"value":{},"value_version":3')]), group="odd")
    kept = saved(log.state)
    one_by_one = loaded(kept, release("4.3"))
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", 1)
    state = loaded(kept, release("4.3"))
    on_demand = [
        group_id
        for group_id, group in state.groups.items()
        if isinstance(group, ClassicGroup) and group.members_on_demand is not None
    ]
    assert on_demand == ["classic"]
    assert saved(state).equals(kept) and saved(one_by_one).equals(kept)
    for group_id, group in state.groups.items():
        assert group.row(0) == one_by_one.groups[group_id].row(0)
        assert group.members == one_by_one.groups[group_id].members
