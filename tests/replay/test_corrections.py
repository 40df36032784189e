"""A carried state compared with the log: differences of substance, entry by entry."""

from __future__ import annotations

import json

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.replay.corrections import Correction, corrected, corrections
from kgroups_spark.replay.state import LogState, loaded, saved
from tests.coordinator.records import (
    Log,
    X,
    classic,
    classic_member,
    consumer_member,
    current,
    epoch,
    share_member,
    streams_member,
    target,
    topology,
)
from tests.coordinator.whole_state import everything
from tests.twin.saved_shards import state_of


def found(carried: Log, reported: Log) -> list[tuple]:
    return found_between(state_of(carried.shard), state_of(reported.shard))


def found_between(carried: LogState, reported: LogState) -> list[tuple]:
    """Whether it is gone, type, and group or producer."""
    rows = corrections(carried, reported)
    reported = [(row, row.group_id or json.loads(row.payload)["producer_id"]) for row in rows]
    return [("gone" if row.is_gone else "put", row.entry_type, whose) for row, whose in reported]


@pytest.mark.parametrize("version", ["4.3", "4.1", "4.0.0", "3.9", "2.8"])
def test_saving_and_loading_does_not_change_a_state(version):
    """In any order of its entries."""
    state = state_of(everything(version).shard)
    entries = saved(state)
    again = loaded(entries.take(list(reversed(range(len(entries))))), release(version))
    assert found_between(state, again) == found_between(again, state) == []


def test_where_and_since_when_a_group_is_in_the_log_makes_no_difference():
    def log() -> Log:
        made = Log().record(5, consumer_member(), "m", group="c").record(3, epoch(2), group="c")
        made.record(10, share_member(), "m", group="s").record(19, streams_member(), "m", group="st")
        return made.record(2, classic([classic_member("m")]), group="classic").record(23, topology(1), group="st")

    again = log().record(3, epoch(2), group="c").record(5, consumer_member(), "m", group="c")
    again.record(2, classic([classic_member("m")]), group="classic").record(19, streams_member(), "m", group="st")
    assert again.group("c").log_offset != log().group("c").log_offset
    assert found(again, log()) == []


def test_every_record_that_the_log_no_longer_has_is_reported():
    def member(group: str) -> Log:
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
    (row,) = corrections(state_of(carried.shard), state_of(reported.shard))
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
    # A pending offset that a tombstone took leaves nothing that a marker would commit.
    wiped, never = (Log().commit(9, producer=2) for _ in range(2))
    wiped.tombstone()
    never.shard.offsets.pending.pop(2)
    assert found(wiped, never) == []


def test_producers_that_leaked_are_forgotten_with_the_log():
    def leaked() -> Log:
        return Log("4.0.0").commit(1).commit(2, producer=5).tombstone().end(5, "committed")

    assert leaked().shard.groups_in_transactions() == {"g"}
    assert found(leaked(), Log("4.0.0").commit(1).tombstone()) == [("gone", "noted", "g")]
    assert found(Log("4.0.0").commit(1).tombstone(), leaked()) == [("put", "noted", "g")]


@pytest.mark.parametrize("version", ["4.3", "4.0.0", "3.9"])
def test_corrections_applied_leave_no_difference(version):
    carried = everything(version)
    reported = Log(version).commit(3, group="h").commit(2, "u", producer=2).record(2, classic(), group="c")
    was, right = state_of(carried.shard), state_of(reported.shard)
    found = list(corrections(was, right))
    now = corrected(was, found, carried.shard.release)
    assert list(corrections(now, right)) == []
    assert now.groups.keys() == right.groups.keys()
    kept = {
        name: sorted(map(str, getattr(now.offsets, name).to_pylist())) for name in ("offsets", "noted", "transactions")
    }
    assert kept == {name: sorted(map(str, getattr(right.offsets, name).to_pylist())) for name in kept}


def test_corrections_leave_all_other_entries_unchanged():
    state = state_of(everything("4.0.0").shard)
    now = corrected(state, [Correction("group", "c", None)], release("4.0.0"))
    assert found_between(state, now) == [("gone", "group", "c")]
    assert corrected(state, [], release("4.0.0")).groups.keys() == state.groups.keys()
