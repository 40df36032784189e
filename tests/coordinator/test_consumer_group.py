"""Consumer groups: cases T31, T32, T34 to T38 of the semantics."""

from __future__ import annotations

import pytest

from tests.coordinator.records import (
    Log,
    T,
    X,
    Y,
    classic,
    classic_member,
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


def test_t31_a_tombstone_turns_a_simple_group_into_a_consumer_group():
    log = Log().commit(1).record(8, None, "m")
    assert (log.states(), log.offsets()) == ({"g": "consumer Empty"}, {"t": 1})
    log.record(3, None)
    assert log.failed.keys() == {2}  # the tombstone of type 6 is missing
    log.record(6, None).record(3, None)
    assert (log.states(), [row.is_orphan for row in log.shard.committed_rows()]) == ({}, [True])


def test_t32_a_record_over_a_group_with_a_protocol_type_fails():
    log = Log().record(2, classic([classic_member("m1")])).record(5, consumer_member(), "m").record(3, None)
    assert log.failed.keys() == {1, 2}
    assert log.states() == {"g": "classic Stable"}


@pytest.mark.parametrize("version", ["3.9-java", "3.8-java", "3.7-java"])
def test_t32_before_4_0_a_simple_group_blocks_records_and_tombstones_need_their_group(version):
    assert Log(version).commit(1).record(5, consumer_member(), "m").failed.keys() == {1}
    log = Log(version).record(5, None, "m").record(7, target(0), "m").record(8, current(1), "m").record(6, None)
    assert log.failed.keys() == {0, 1, 2, 3}
    log = Log(version).record(3, epoch(1)).record(8, current(1), "m").record(5, None, "m")
    assert (log.failed.keys(), log.states()) == ({1, 2}, {"g": "consumer Empty"})


def test_t34_a_members_tombstone_before_that_of_its_assignment_fails():
    log = full(Log()).record(5, None, "m")
    assert log.failed.keys() == {5}
    log.record(8, None, "m").record(5, None, "m")
    assert log.failed.keys() == {5, 7}  # its target assignment is still there
    log.record(7, None, "m").record(5, None, "m")
    assert (log.failed.keys(), log.states()) == ({5, 7}, {"g": "consumer Empty"})


def test_t34_tombstones_of_missing_members_and_groups_are_ignored():
    log = Log().record(5, None, "m").record(8, None, "m").record(7, None, "m").record(6, None).record(3, None)
    log.record(16, None, "r").record(4, None)
    assert (log.failed, log.states()) == ({}, {})
    log.record(3, epoch(1)).record(5, None, "m").record(8, None, "m")
    assert (log.failed, log.states()) == ({}, {"g": "consumer Empty"})


def test_t35_an_assignment_after_the_members_removal_makes_a_ghost():
    log = full(Log()).record(8, None, "m").record(7, None, "m").record(5, None, "m").record(8, current(5), "m")
    row = log.members()["m"]
    assert (log.states(), row.client_id, row.client_host, row.subscribed_topics) == (
        {"g": "consumer Stable"},
        "",
        "",
        [],
    )
    assert (row.member_epoch, row.rebalance_timeout_ms, row.subscribed_regex) == (5, None, None)


def test_t36_a_static_member_that_is_away_counts_as_a_member():
    log = full(Log(), member_epoch=-2)
    assert (log.states(), log.members()["m"].member_epoch) == ({"g": "consumer Reconciling"}, -2)


def test_t37_states_come_from_the_epochs_in_their_order():
    assert full(Log(), state=0).states() == {"g": "consumer Stable"}
    assert full(Log(), state=2).states() == {"g": "consumer Reconciling"}
    assert full(Log(), state=99).states() == {"g": "consumer Reconciling"}
    assert full(Log(), member_epoch=4).states() == {"g": "consumer Reconciling"}
    assert full(Log()).record(3, epoch(6)).states() == {"g": "consumer Assigning"}
    assert [full(Log(), state=n).members()["m"].member_state for n in (0, 1, 2, 3, -1)] == [
        "STABLE",
        "UNREVOKED_PARTITIONS",
        "UNRELEASED_PARTITIONS",
        "UNKNOWN",
        "UNKNOWN",
    ]


def test_t38_a_fresh_group_is_at_epoch_1_since_4_3():
    row = Log("4.3").record(5, consumer_member(), "m").group()
    assert (row.state, row.group_epoch, row.assignment_epoch) == ("Reconciling", 1, 1)
    for version in OLD:
        row = Log(version).record(5, consumer_member(), "m").group()
        assert (row.state, row.group_epoch, row.assignment_epoch) == ("Stable", 0, 0)


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


def test_a_member_of_the_classic_protocol_has_its_session_timeout():
    member = consumer_member(classicMemberMetadata={"sessionTimeoutMs": 45000, "supportedProtocols": []})
    row = Log().record(5, member, "m").members()["m"]
    assert (row.uses_classic_protocol, row.session_timeout_ms) == (True, 45000)


def test_assignment_epochs_are_those_of_the_partitions_or_the_members_since_4_3():
    entry = {"topicId": X, "partitions": [1, 0], "assignmentEpochs": [7, 8]}
    value = current(9, assignedPartitions=[entry, {**entry, "topicId": Y, "assignmentEpochs": [7]}])
    assigned = [(X, 0, 8), (X, 1, 7), (Y, 0, 9), (Y, 1, 9)]
    row = Log("4.3").record(8, value, "m").members()["m"]
    assert [part[1:] for part in row.assigned_partitions] == assigned
    row = Log("4.2").record(8, value, "m").members()["m"]
    assert {part.assignment_epoch for part in row.assigned_partitions} == {None}


def test_two_members_that_own_one_partition_fail_at_one_epoch_and_the_state_stays():
    log = full(Log()).record(8, current(5, 0, state=2), "n")
    assert log.failed.keys() == {5}
    assert "still owned at epoch 5" in log.failed[5]
    # Kafka has put the member in place and not looked at the state again.
    assert (list(log.members()), log.states()) == (["m", "n"], {"g": "consumer Stable"})
    assert full(Log()).record(8, current(6, 0), "n").failed == {}


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


def test_an_assignment_epoch_below_minus_1_fails_since_4_3():
    assert Log("4.3").record(6, target_epoch(-2)).failed.keys() == {0}
    assert Log("4.2").record(6, target_epoch(-2)).group().assignment_epoch == -2
    assert Log("4.3").record(6, None).states() == {}


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
