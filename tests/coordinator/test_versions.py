"""Version rows: one where a record changed the row, and what a removal leaves."""

from __future__ import annotations

from kgroups_spark.coordinator.rows import GroupRow, MemberRow
from tests.coordinator.records import (
    Log,
    T,
    X,
    classic,
    classic_member,
    consumer_member,
    current,
    epoch,
    target,
    target_epoch,
)


def groups(log: Log) -> list[tuple]:
    """(log offset, group, state, removed) of the version rows of groups."""
    versions = [row for row in log.shard.take_changes() if isinstance(row, GroupRow)]
    return [(row.log_offset, row.group_id, row.state, row.is_removed) for row in versions]


def members(log: Log) -> list[tuple]:
    """(log offset, member, removed) of the version rows of members."""
    versions = [row for row in log.shard.take_changes() if isinstance(row, MemberRow)]
    return [(row.log_offset, row.member_id, row.is_removed) for row in versions]


def recording(version: str = "4.3") -> Log:
    return Log(version, recording=True)


def test_a_group_of_offsets_has_a_version_where_it_begins():
    log = recording().commit(1).commit(2).commit(3, producer=1).end(1, "committed")
    assert groups(log) == [(0, "g", "Empty", False)]
    assert groups(log) == []


def test_a_repeated_record_makes_no_version():
    value = classic([classic_member("m1")], leader="m1")
    log = recording().record(2, value).record(2, value).record(2, {**value, "generation": 4})
    rows = log.shard.take_changes()
    assert [(type(row).__name__, row.log_offset) for row in rows] == [
        ("GroupRow", 0),
        ("MemberRow", 0),
        ("GroupRow", 2),
    ]
    assert [row.state_since for row in (rows[0], rows[2])] == [T, T]


def test_only_members_that_changed_have_a_version():
    a, b, c = classic_member("a"), classic_member("b"), classic_member("c")
    log = recording().record(2, classic([a, b])).record(2, classic([dict(a), {**b, "clientHost": "/i"}, c]))
    assert members(log) == [(0, "a", False), (0, "b", False), (1, "b", False), (1, "c", False)]
    assert members(log.record(2, classic([a]))) == [(2, "b", True), (2, "c", True)]


def test_a_record_that_fails_at_a_classic_group_makes_no_version():
    log = recording().record(2, classic([classic_member("m1")]))
    log.shard.take_changes()
    log.record(3, epoch(3))
    assert list(log.failed) == [1]
    assert log.shard.take_changes() == []


def test_a_removal_leaves_versions_with_the_names_of_group_and_member():
    log = recording().record(2, classic([classic_member("m1")])).record(2, None)
    versions = log.shard.take_changes()
    group, member = versions[2:]
    at = {"log_offset": 1, "log_timestamp": T + 1, "is_removed": True}
    assert group == GroupRow(0, "g", "classic", "Dead", False, state_since=T + 1, **at)
    assert member == MemberRow(0, "g", "m1", **at)


def test_a_group_that_changes_its_type_has_a_version_and_loses_its_members():
    log = (
        recording()
        .record(2, classic([classic_member("m1")]))
        .record(2, None)
        .commit(1)
        .record(5, consumer_member(), "m")
    )
    versions = log.shard.take_changes()
    assert [(row.log_offset, row.group_type, row.state) for row in versions if isinstance(row, GroupRow)] == [
        (0, "classic", "Stable"),
        (1, "classic", "Dead"),
        (2, "classic", "Empty"),
        (3, "consumer", "Reconciling"),
    ]
    log = recording().record(5, consumer_member(), "m").record(2, classic([classic_member("m1")]))
    assert members(log) == [(0, "m", False), (1, "m1", False), (1, "m", True)]


def test_records_of_a_member_change_only_its_row():
    log = recording().record(5, consumer_member(), "m").record(5, consumer_member(), "n").record(3, epoch(2))
    log.shard.take_changes()
    assert members(log.record(7, target(0), "m")) == [(3, "m", False)]
    assert groups(log.record(6, target_epoch(2))) == [(4, "g", "Reconciling", False)]
    log.record(8, current(2, 0), "m")
    rows = log.shard.take_changes()
    assert [(type(row).__name__, row.log_offset) for row in rows] == [("MemberRow", 5)]
    assert rows[0].assigned_partitions == [(None, X, 0, 2)]
    log.record(8, current(2), "n")
    assert [row.state for row in log.shard.take_changes() if isinstance(row, GroupRow)] == ["Stable"]


def test_state_since_is_the_record_that_led_to_the_state():
    log = (
        recording().record(2, classic([classic_member("m1")])).record(2, classic([classic_member("m1")], generation=4))
    )
    assert (log.group().state, log.group().state_since) == ("Stable", T)
    assert log.record(2, classic()).group().state_since == T + 2
    assert log.record(2, classic(generation=9)).group().state_since == T + 2
    assert log.commit(1).group().state_since == T + 2
    assert log.record(2, None).commit(1).group().state_since == T + 6


def test_a_record_that_fails_half_way_has_its_version():
    log = recording().record(8, current(1, 0), "m").record(8, current(1, 0), "n")
    assert log.failed.keys() == {1}
    assert members(log) == [(0, "m", False), (1, "n", False)]


def test_scala_groups_come_and_go_with_their_offsets():
    log = recording("3.9").commit(1).commit(2, "u", producer=1).tombstone().end(1, "aborted").commit(3)
    assert groups(log) == [(0, "g", "Empty", False), (3, "g", "Dead", True), (4, "g", "Empty", False)]
    log = recording("3.9").commit(1, group="a", producer=1).commit(1, group="b", producer=1).end(1, "aborted")
    assert [version[:2] for version in groups(log)] == [(0, "a"), (1, "b"), (2, "a"), (2, "b")]
    log = recording("3.9").commit(1).record(2, classic([classic_member("m")])).record(2, None)
    assert [version[2] for version in groups(log)] == ["Empty", "Stable", "Empty"]


def test_without_recording_there_are_no_versions():
    assert Log().commit(1).record(2, classic()).shard.take_changes() == []
