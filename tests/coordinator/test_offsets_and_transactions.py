"""Offsets, transactions and the groups that only they make: cases T1 to T3, T18 to T30, T51, T52 of the semantics."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.releases import release
from tests.coordinator.records import Log, T, X, classic
from tests.twin.shard import Shard
from tests.twin.transactions import EndedTransaction

COMMITTED, ABORTED = "committed", "aborted"
JAVA = ["4.3", "4.2", "4.1", "4.0.2", "4.0.0", "3.8-java"]
SCALA = ["3.9", "2.8", "2.1"]
SIMPLE = {"g": "classic Empty"}


def test_t01_types_0_and_1_share_one_slot():
    log = Log().commit(1, record_type=0, value_version=0).commit(2)
    assert log.offsets() == {"t": 2}
    assert [row.record_type for row in log.shard.committed_rows()] == [1]


def test_t02_a_type_0_key_with_a_newer_value_fails_since_4_1():
    assert Log("4.3").commit(1, record_type=0, value_version=1).failed.keys() == {0}
    assert Log("4.1").commit(1, record_type=0, value_version=1).states() == {}
    assert Log("4.0").commit(1, record_type=0, value_version=1).offsets() == {"t": 1}
    assert Log("3.9").commit(1, record_type=0, value_version=1).offsets() == {"t": 1}


def test_t03_a_type_1_tombstone_removes_a_type_0_value():
    log = Log().commit(1, record_type=0, value_version=0).tombstone()
    assert log.offsets() == {}
    assert log.states() == SIMPLE


def test_t05_all_fields_of_a_value_come_out():
    log = Log().commit(7, leader_epoch=4, metadata="m\0", commit_timestamp=5, expire_timestamp=9, topic_id=X)
    (row,) = log.shard.committed_rows()
    assert row == (0, "g", "t", 0, 7, 4, "m\0", 5, 9, X, 1, 3, 0, False)


def test_t06_topic_ids_in_values_are_known_since_4_1():
    assert [row.topic_id for row in Log("4.0").commit(1, topic_id=X).shard.committed_rows()] == [None]
    log = Log("4.0").commit(1, topic_id=X)
    assert list(log.shard.topic_rows()) == [(X, "t", T, "offset_commit")]


@pytest.mark.parametrize("version", JAVA + SCALA)
def test_t19_the_later_record_wins_not_the_later_marker(version):
    assert Log(version).commit(30, producer=1).commit(40).end(1, COMMITTED).offsets() == {"t": 40}
    assert Log(version).commit(40).commit(30, producer=1).end(1, COMMITTED).offsets() == {"t": 30}


def test_t19_in_3_7_the_marker_decides():
    assert Log("3.7-java").commit(30, producer=1).commit(40).end(1, COMMITTED).offsets() == {"t": 30}


@pytest.mark.parametrize("version", JAVA + SCALA)
def test_t20_the_later_record_of_two_transactions_wins(version):
    log = Log(version).commit(50, producer=1).commit(60, producer=2).end(2, COMMITTED)
    assert (log.offsets(), log.pending()) == ({"t": 60}, [(1, "t", 50)])
    assert log.end(1, COMMITTED).offsets() == {"t": 60}


def test_t20_in_3_7_the_later_marker_wins():
    log = Log("3.7-java").commit(50, producer=1).commit(60, producer=2).end(2, COMMITTED).end(1, COMMITTED)
    assert log.offsets() == {"t": 50}


@pytest.mark.parametrize("version", JAVA)
def test_t21_a_tombstone_takes_pending_offsets_with_it(version):
    log = Log(version).commit(30, producer=1).commit(31, producer=2).tombstone()
    assert log.pending() == []
    assert log.end(1, COMMITTED).offsets() == {}


@pytest.mark.parametrize("version", [*SCALA, "3.7-java"])
def test_t21_scala_and_3_7_bring_the_offset_back(version):
    assert Log(version).commit(30, producer=1).tombstone().end(1, COMMITTED).offsets() == {"t": 30}


@pytest.mark.parametrize("version", [*JAVA, "3.7-java"])
def test_t22_java_applies_a_transactional_tombstone_at_once(version):
    log = Log(version).commit(1).tombstone(producer=1)
    assert log.offsets() == {}
    assert log.end(1, ABORTED).offsets() == {}


@pytest.mark.parametrize("version", SCALA)
def test_t22_scala_keeps_the_offset(version):
    log = Log(version).commit(1).commit(2, producer=1).tombstone(producer=1)
    assert (log.offsets(), log.pending()) == ({"t": 1}, [])


def test_t23_the_later_of_two_records_in_one_transaction_is_pending():
    log = Log().commit(1, producer=1).commit(2, producer=1)
    assert log.pending() == [(1, "t", 2)]
    assert log.end(1, COMMITTED).offsets() == {"t": 2}


def test_t25_a_marker_of_any_epoch_ends_all_of_the_producer():
    log = Log().commit(1, producer=1).commit(2, "u", producer=1, producer_epoch=3).end(1, COMMITTED)
    assert (log.offsets(), log.pending()) == ({"t": 1, "u": 2}, [])


def test_t26_markers_without_data_and_repeated_ones_do_nothing():
    log = Log().end(1, COMMITTED).commit(1).end(1, ABORTED).end(1, ABORTED)
    assert (log.offsets(), log.states()) == ({"t": 1}, SIMPLE)


@pytest.mark.parametrize(("version", "pending"), [(v, True) for v in JAVA] + [(v, False) for v in SCALA])
def test_t28_a_producer_without_transaction_is_pending_in_java_and_committed_in_scala(version, pending):
    log = Log(version).commit(1, producer_id=5, producer_epoch=2)
    assert (log.offsets(), log.pending()) == (({}, [(5, "t", 1)]) if pending else ({"t": 1}, []))
    assert list(log.shard.open_transaction_rows()) == []
    assert [row.transaction_start_offset for row in log.shard.pending_rows()] == ([None] if pending else [])


def test_t29_an_aborted_transaction_leaves_a_group_in_java_and_none_in_scala():
    assert Log("4.3").commit(1, producer=1).end(1, ABORTED).states() == SIMPLE
    assert Log("3.9").commit(1, producer=1).end(1, ABORTED).states() == {}


def test_t18_a_group_of_offsets_alone_is_simple():
    row = Log().commit(1).group()
    assert (row.is_simple, row.protocol_type, row.generation, row.current_state_timestamp) == (True, None, 0, None)
    assert (row.state_since, row.log_offset) == (T, None)


def test_t30_a_group_tombstone_leaves_orphans_in_java():
    log = Log().record(2, classic()).commit(1).record(2, None)
    assert log.states() == {}
    assert [row.is_orphan for row in log.shard.committed_rows()] == [True]
    log.commit(2, "u")
    assert log.states() == SIMPLE
    assert [row.is_orphan for row in log.shard.committed_rows()] == [False, False]


def test_t30_in_scala_a_simple_group_remains_as_long_as_it_has_offsets():
    log = Log("3.9").record(2, classic()).commit(1).commit(2, "u", producer=1).record(2, None)
    assert log.states() == SIMPLE
    assert log.tombstone().states() == SIMPLE
    assert log.end(1, ABORTED).states() == {}


def test_t51_a_pending_offset_leaves_the_committed_one():
    log = Log().commit(1).commit(2, producer=1)
    assert (log.offsets(), log.pending()) == ({"t": 1}, [(1, "t", 2)])
    (row,) = log.shard.pending_rows()
    assert (row.transaction_start_offset, row.open_since, row.log_offset) == (1, T + 1, 1)
    assert log.shard.groups_in_transactions() == {"g"}


@pytest.mark.parametrize(("version", "leaks"), [("4.0.0", True), ("3.8-java", True), ("4.0.1", False), ("4.3", False)])
def test_t52_a_tombstone_before_the_marker_leaks_the_producer_in_3_8_to_4_0_0(version, leaks):
    log = Log(version).commit(1, producer=1).tombstone().end(1, COMMITTED)
    assert log.shard.groups_in_transactions() == ({"g"} if leaks else set())
    # The producer's next transaction with the group takes it away.
    log.commit(2, producer=1).end(1, COMMITTED)
    assert log.shard.groups_in_transactions() == set()


def test_an_open_transaction_is_reported_even_if_tombstones_have_removed_its_offsets():
    log = Log().commit(1, producer=1).commit(2, "u", group="h", producer=1).tombstone().tombstone("u", group="h")
    assert log.pending() == []
    assert list(log.shard.open_transaction_rows()) == [(0, 1, 0, 0, T, 2, ["g", "h"], None)]
    assert log.shard.end_transaction(9, T, 1, ABORTED) == EndedTransaction(0, 2, ["g", "h"])
    assert list(log.shard.open_transaction_rows()) == []


def test_a_record_that_cannot_be_decoded_opens_a_transaction_too():
    log = Log().append("undecodable", producer_id=3, producer_epoch=1, is_transactional=True)
    assert list(log.shard.open_transaction_rows()) == [(0, 3, None, 0, T, 0, [], None)]


def test_a_control_record_of_another_type_ends_nothing_in_java_and_drops_pending_offsets_in_scala():
    assert Log("4.3").commit(1, producer=1).end(1, None).pending() == [(1, "t", 1)]
    assert Log("3.9").commit(1, producer=1).end(1, None).pending() == []


@pytest.mark.parametrize(("version", "read"), [("3.4.1", True), ("3.5", True), ("3.4.0", False), ("2.8", False)])
def test_values_of_version_4_are_read_since_kip_915(version, read):
    assert Log(version).commit(1, value_version=4).offsets() == ({"t": 1} if read else {})


def test_a_misplaced_group_is_reported_where_the_number_of_partitions_is_known():
    shard = Log().commit(1, group="test-group").shard  # its partition of 50 is 12, the shard's 0
    assert [row.is_misplaced for row in shard.group_rows(50)] == [True]
    assert [row.is_misplaced for row in shard.group_rows(1)] == [False]
    assert [row.is_misplaced for row in shard.group_rows()] == [None]


def test_the_epoch_of_a_transaction_is_that_of_its_first_offset_commit() -> None:
    """Whatever came before it: history keeps no epoch of other records."""
    shard = Shard(release("4.3"), 0)
    shard.transactional_record(0, 10, 7)
    assert [(r.transaction_start_offset, r.producer_epoch) for r in shard.open_transaction_rows()] == [(0, None)]
    shard.replay_offset_commit(1, 11, 1, "g", "t", 0, None, 7, 3, True)
    shard.replay_offset_commit(2, 12, 1, "g", "t", 0, None, 7, 4, True)
    assert [(r.transaction_start_offset, r.producer_epoch) for r in shard.open_transaction_rows()] == [(0, 3)]
