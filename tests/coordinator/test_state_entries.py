"""Saving and loading: the state goes on as if nothing had happened (R2)."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.state_entries import saved_and_loaded
from tests.coordinator.records import Log, consumer_member, current
from tests.coordinator.whole_state import everything


def reload(log: Log) -> None:
    log.shard.groups = {name: saved_and_loaded(group) for name, group in log.shard.groups.items()}


@pytest.mark.parametrize("version", ["4.3", "4.1", "4.0.0", "3.9"])
def test_a_loaded_state_has_the_same_rows(version):
    log, loaded = everything(version), everything(version)
    reload(loaded)
    assert list(loaded.shard.group_rows()) == list(log.shard.group_rows())
    assert list(loaded.shard.member_rows()) == list(log.shard.member_rows())


def test_state_that_no_table_shows_survives_too():
    log = Log().record(8, current(5, 0), "m").record(8, current(6, 0), "n").record(8, current(7), "n")
    reload(log)
    # Partition 0 has no owner any more, although m's row says that m does.
    assert log.record(8, current(5, 0), "k").failed == {}
    assert log.record(8, current(5, 0), "l").failed.keys() == {4}


def test_a_state_from_before_a_failure_survives_too():
    log = Log().record(5, consumer_member(), "m").record(8, current(1, 0), "m").record(8, current(1, 0, state=2), "n")
    assert (log.failed.keys(), log.states()) == ({2}, {"g": "consumer Stable"})
    reload(log)
    assert (log.states(), list(log.members())) == ({"g": "consumer Stable"}, ["m", "n"])
