"""A correction replaces an entry of the saved state between two records, with its versions."""

from __future__ import annotations

import json

import pytest

from kgroups_spark.coordinator.releases import release
from tests.coordinator.records import Log, X, classic, classic_member, consumer_member, current, target
from tests.coordinator.whole_state import everything, rows
from tests.twin.shard import Shard


def entries(shard: Shard) -> dict:
    """The saved state by entry: type, and group or producer."""
    return {
        (row.entry_type, row.group_id or json.loads(row.payload).get("producer_id")): row.payload
        for row in shard.save()
        if row.entry_type != "topics"
    }


@pytest.mark.parametrize("version", ["4.3", "4.0.0", "3.9"])
def test_a_state_corrected_entry_by_entry_is_the_other_state(version):
    one, other = everything(version).shard, Log(version).commit(3, group="h").commit(2, "u", producer=2).shard
    before, after = entries(one), entries(other)
    for entry_type, name in before.keys() | after.keys():
        payload = after.get((entry_type, name))
        if entry_type == "producer":
            payload = payload or json.dumps({"producer_id": name})
            name = None
        one.correct(99, entry_type, name, payload)
    one.topics = other.topics
    assert rows(one) == rows(other)
    assert entries(one) == entries(other)
    assert one.groups_in_transactions() == other.groups_in_transactions() != set()


def versions(shard: Shard) -> list:
    return [
        (row.log_offset, row.group_id, getattr(row, "member_id", None), row.is_removed) for row in shard.take_changes()
    ]


def test_versions_of_a_correction_replace_those_at_the_offset_before():
    log = Log(recording=True).record(2, classic([classic_member("m1"), classic_member("m2")]))
    log.commit(1, group="other").shard.take_changes()
    log.record(2, classic([classic_member("m2"), classic_member("m3")]))
    last = len(log.rows) - 1
    log.shard.correct(last + 1, "group", "other", None)
    empty = Log().record(2, classic()).shard
    log.shard.correct(last + 1, "group", "g", entries(empty)["group", "g"])
    found = log.shard.take_changes()
    assert [(r.log_offset, r.group_id, getattr(r, "member_id", None), r.is_removed) for r in found] == [
        (last, "g", "m1", True),
        (last, "other", None, True),
        (last, "g", None, False),
        (last, "g", "m2", True),
        (last, "g", "m3", True),
    ]
    assert found[2].state == "Empty"
    assert [row.log_timestamp for row in found[1:]] == [None] * 4


def test_an_entry_of_offsets_alone_changes_no_version():
    log = Log(recording=True).record(5, consumer_member(), "m").record(8, current(1, 0), "m").commit(1)
    log.shard.take_changes()
    payload = json.loads(entries(log.shard)["group", "g"])
    log.shard.correct(9, "group", "g", json.dumps({**payload, "offsets": []}))
    assert versions(log.shard) == []
    assert list(log.shard.committed_rows()) == []


def test_the_next_record_finds_the_corrected_state():
    log = Log(recording=True).record(5, consumer_member(), "m").record(7, target(0), "m")
    log.shard.take_changes()
    log.shard.correct(len(log.rows), "group", "g", None)
    log.commit(1, topic_id=X)
    assert versions(log.shard) == [(1, "g", None, True), (1, "g", "m", True), (2, "g", None, False)]
    assert log.states() == {"g": "classic Empty"}
    assert Shard.load(release("4.3"), 0, log.shard.save()).groups.keys() == {"g"}
