"""Consumer groups: fields of their rows, and rules of single releases (T32, T37)."""

from __future__ import annotations

import pytest

from tests.coordinator.records import (
    Log,
    T,
    X,
    Y,
    consumer_member,
    current,
    epoch,
    target,
    target_epoch,
)

OLD = ["4.2", "4.1", "4.0"]


def full(log: Log, member_epoch: int = 5, state: int = 0) -> Log:
    """Group g at epoch 5 with member m that owns partition 0 of X."""
    log.record(5, consumer_member(), "m").record(3, epoch(5)).record(7, target(0), "m").record(6, target_epoch(5))
    return log.record(8, current(member_epoch, 0, state=state), "m")


@pytest.mark.parametrize("version", ["3.9-java", "3.8-java", "3.7-java"])
def test_t32_before_4_0_a_simple_group_blocks_records_and_tombstones_need_their_group(version):
    assert Log(version).commit(1).record(5, consumer_member(), "m").failed.keys() == {1}
    log = Log(version).record(5, None, "m").record(7, target(0), "m").record(8, current(1), "m").record(6, None)
    assert log.failed.keys() == {0, 1, 2, 3}
    log = Log(version).record(3, epoch(1)).record(8, current(1), "m").record(5, None, "m")
    assert (log.failed.keys(), log.states()) == ({1, 2}, {"g": "consumer Empty"})


def test_a_groups_row_has_the_fields_of_its_records():
    log = full(Log()).record(3, epoch(5, metadataHash=-9)).record(16, {"topics": ["b", "a"]}, "r.*")
    row = log.group()
    assert (row.protocol_type, row.is_simple, row.generation, row.member_count) == ("consumer", False, None, 1)
    assert (row.metadata_hash, row.resolved_regex_topics, row.log_offset) == (-9, {"r.*": ["a", "b"]}, 6)
    assert log.record(16, None, "r.*").group().resolved_regex_topics is None


def test_a_members_row_has_its_records_fields_and_topic_names_from_any_record():
    log = full(Log()).commit(1, "t", group="other", topic_id=X)
    row = log.members()["m"]
    assert (row.assigned_partitions, row.target_partitions) == ([("t", X, 0, 5)], [("t", X, 0, None)])
    assert (row.previous_member_epoch, row.uses_classic_protocol, row.session_timeout_ms) == (0, False, None)
    assert (row.rebalance_timeout_ms, row.subscribed_topics, row.log_offset) == (300000, ["t"], 4)


def test_partition_metadata_names_topics():
    log = Log("4.0").record(4, {"topics": [{"topicId": Y, "topicName": "named", "numPartitions": 1}]})
    assert list(log.shard.topic_rows()) == [(Y, "named", T, "group_record")]


def test_assignment_epochs_are_those_of_the_partitions_or_the_members_since_4_3():
    entry = {"topicId": X, "partitions": [1, 0], "assignmentEpochs": [7, 8]}
    value = current(9, assignedPartitions=[entry, {**entry, "topicId": Y, "assignmentEpochs": [7]}])
    assigned = [(X, 0, 8), (X, 1, 7), (Y, 0, 9), (Y, 1, 9)]
    row = Log("4.3").record(8, value, "m").members()["m"]
    assert [part[1:] for part in row.assigned_partitions] == assigned
    row = Log("4.2").record(8, value, "m").members()["m"]
    assert {part.assignment_epoch for part in row.assigned_partitions} == {None}


@pytest.mark.parametrize(("version", "fails"), [("4.0.1", True), ("4.1.1", True), ("4.0.2", False), ("4.1.2", False)])
def test_taking_and_giving_up_a_partition_that_another_epoch_owns_failed_before_kafka_19862(version, fails):
    log = full(Log(version)).record(8, current(6, 0), "n").record(8, current(6), "m")
    assert log.failed.keys() == ({5, 6} if fails else set())
    # The newer epoch owned it all the same, until it was given up.
    assert log.record(8, current(7, 0), "n").failed.keys() == ({5, 6, 7} if fails else set())


def test_a_repeated_topic_fails_except_in_4_3s_current_assignments():
    twice = target(0)["topicPartitions"] * 2
    assert Log().record(7, {"topicPartitions": twice}, "m").failed.keys() == {0}
    value = current(1, assignedPartitions=[{**part, "assignmentEpochs": None} for part in twice])
    assert Log("4.3").record(8, value, "m").failed == {}
    assert Log("4.2").record(8, value, "m").failed.keys() == {0}


def test_an_assignment_epoch_after_its_tombstone_is_null():
    log = Log().record(5, consumer_member(), "m").record(6, None)
    assert (log.group().assignment_epoch, log.group().state) == (None, "Assigning")


def test_3_7_derives_the_member_state_from_pending_partitions():
    part = [{"topicId": X, "partitions": [0]}]
    early = current(4, 0, state=None, targetMemberEpoch=5, partitionsPendingAssignment=[])
    log = Log("3.7-java").record(5, consumer_member(), "m").record(3, epoch(5)).record(6, target_epoch(5))
    assert log.record(8, early, "m").states() == {"g": "consumer Stable"}
    log.record(8, {**early, "partitionsPendingAssignment": part}, "m")
    assert (log.states(), log.members()["m"].member_state) == ({"g": "consumer Reconciling"}, "UNRELEASED_PARTITIONS")
    log.record(8, {**early, "partitionsPendingRevocation": part}, "m")
    assert (log.states(), log.members()["m"].member_state) == ({"g": "consumer Reconciling"}, "UNREVOKED_PARTITIONS")
    assert log.record(8, {**early, "targetMemberEpoch": 6}, "m").states() == {"g": "consumer Reconciling"}


def test_3_7_lets_two_members_own_one_partition():
    log = Log("3.7-java").record(5, consumer_member(), "m").record(5, consumer_member(), "n")
    assert log.record(8, current(1, 0), "m").record(8, current(1, 0), "n").failed == {}
