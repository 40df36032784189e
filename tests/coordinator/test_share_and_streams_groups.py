"""Share and streams groups: cases T33, T39, T40, T55 of the semantics."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.state_entries import saved_and_loaded
from tests.coordinator.records import (
    Log,
    X,
    classic,
    current,
    epoch,
    share_member,
    streams_current,
    streams_member,
    streams_target,
    target,
    target_epoch,
    topology,
)


def streams(log: Log, validated: int = 1) -> Log:
    """Group g with member m at epoch 2 and topology 1."""
    log.record(19, streams_member(), "m").record(23, topology(1)).record(17, epoch(2, validatedTopologyEpoch=validated))
    log.record(21, streams_target(0, 1), "m").record(20, target_epoch(2))
    return log.record(22, streams_current(2, 1, 0), "m")


def test_t33_a_share_record_over_a_simple_group_fails():
    assert Log().commit(1).record(10, share_member(), "m").failed.keys() == {1}


@pytest.mark.parametrize(("version", "fails"), [("4.2.1", False), ("4.3", False), ("4.2.0", True), ("4.1", True)])
def test_t33_a_streams_record_replaces_a_simple_group_since_4_2_1(version, fails):
    log = Log(version).commit(1).record(17, epoch(2))
    assert log.failed.keys() == ({1} if fails else set())
    assert log.states() == {"g": "classic Empty" if fails else "streams Empty"}


def test_t33_a_streams_record_over_a_classic_group_fails():
    assert Log().record(2, classic()).record(23, topology(1)).failed.keys() == {1}


def test_t39_member_states_of_streams_count_from_1():
    states = [Log().record(22, streams_current(1, state=n), "m").members()["m"].member_state for n in range(4)]
    assert states == ["UNKNOWN", "STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS"]


def test_t40_a_streams_group_is_ready_when_its_topology_is_validated():
    assert streams(Log("4.3")).states() == {"g": "streams Stable"}
    assert streams(Log("4.2"), validated=-1).states() == {"g": "streams NotReady"}
    assert streams(Log("4.1")).states() == {"g": "streams NotReady"}
    assert streams(Log()).record(23, None).states() == {"g": "streams NotReady"}
    assert streams(Log()).record(17, epoch(3, validatedTopologyEpoch=1)).states() == {"g": "streams Assigning"}
    assert streams(Log()).record(22, streams_current(2, state=2), "m").states() == {"g": "streams Reconciling"}


@pytest.mark.parametrize("version", ["4.1", "4.2", "4.3", "4.4"])
def test_a_negative_topology_epoch_fails_the_load_and_leaves_the_topology(version):
    log = Log(version).record(23, topology(1)).record(23, topology(-1))
    assert log.failed == {1: "Topology epoch must be non-negative."}
    assert log.group().topology.startswith('{"epoch":1,')


@pytest.mark.parametrize(("version", "state"), [("4.3", "Reconciling"), ("4.4", "NotReady")])
def test_without_its_metadata_record_a_streams_group_has_validated_topology_0_before_4_4(version, state):
    log = Log(version).record(19, streams_member(), "m").record(23, topology(0))
    assert log.states() == {"g": f"streams {state}"}


def test_a_streams_groups_rows_have_the_fields_of_its_records():
    log = streams(Log())
    assert log.group().topology.startswith('{"epoch":1,"subtopologies":[{"subtopologyId":"0","sourceTopics":["src"]')
    row = log.members()["m"]
    assert row.assigned_tasks == row.target_tasks == [("active", "0", 0), ("active", "0", 1)]
    assert (row.pending_revocation_tasks, row.topology_epoch, row.process_id) == ([], 1, "p")
    assert (row.subscribed_topics, row.assigned_partitions, row.uses_classic_protocol) == (None, None, None)


@pytest.mark.parametrize(("stored", "shown"), [({}, None), (-1, None), (-2, -2), (0, 0), (7, 7)])
def test_a_streams_group_knows_the_topology_description_that_a_plugin_holds(stored, shown):
    fields = stored if stored == {} else {"storedDescriptionTopologyEpoch": stored}
    log = Log().record(17, epoch(1, **fields))
    assert log.group().stored_description_epoch == shown
    assert saved_and_loaded(log.shard.groups["g"]).row(0) == log.shard.groups["g"].row(0)
    assert log.record(17, epoch(2, storedDescriptionTopologyEpoch=-1)).group().stored_description_epoch is None


def test_tombstones_in_kafkas_order_remove_a_streams_group():
    log = streams(Log()).record(17, None)
    assert log.failed.keys() == {6}
    log.record(22, None, "m").record(21, None, "m").record(20, None).record(19, None, "m").record(17, None)
    assert log.record(23, None).states() == {}
    assert log.failed.keys() == {6}


def test_a_streams_member_without_epoch_cannot_be_deleted():
    log = Log().record(19, streams_member(), "m").record(19, None, "m")
    assert (log.failed.keys(), log.states()) == ({1}, {"g": "streams NotReady"})


def test_t55_an_empty_share_group_stays():
    log = Log().record(11, epoch(2, metadataHash=3))
    row = log.group()
    assert (row.state, row.protocol_type, row.group_epoch, row.metadata_hash) == ("Empty", "share", 2, 3)


def test_a_share_group_with_members_is_stable_whatever_its_epochs():
    log = Log().record(10, share_member(["b", "a"]), "m").record(11, epoch(9)).record(14, current(1, 0, state=1), "m")
    log.record(13, target(0, 1), "m").record(12, target_epoch(4))
    assert log.states() == {"g": "share Stable"}
    row = log.members()["m"]
    assert (row.subscribed_topics, row.member_state) == (["a", "b"], "UNREVOKED_PARTITIONS")
    assert (row.assigned_partitions, len(row.target_partitions)) == ([(None, X, 0, None)], 2)


def test_a_share_member_forgot_its_state_until_4_1():
    for version, state in (("4.1", "STABLE"), ("4.2", "UNREVOKED_PARTITIONS")):
        log = Log(version).record(14, current(1, state=1), "m").record(10, share_member(), "m")
        assert log.members()["m"].member_state == state


def test_share_records_of_4_0_need_their_group_and_member():
    log = Log("4.0").record(14, current(1), "m").record(12, target_epoch(1)).record(10, None, "m").record(9, None)
    assert log.failed.keys() == {0, 1, 2, 3}
    assert Log("4.1").record(14, current(1), "m").states() == {"g": "share Stable"}


def test_share_partitions_make_the_group_and_name_topics():
    topic = {"topicId": X, "topicName": "t", "partitions": [0]}
    value = {"initializingTopics": [], "initializedTopics": [topic], "deletingTopics": []}
    log = Log().record(15, value)
    assert (log.states(), [row.topic for row in log.shard.topic_rows()]) == ({"g": "share Empty"}, ["t"])
    assert Log().record(15, {**value, "initializedTopics": [topic, topic]}).failed.keys() == {0}
    assert Log("4.0").record(15, value).failed.keys() == {0}


def test_4_0_reads_the_hash_of_a_newer_value_as_tags():
    assert Log("4.0").record(11, epoch(2, metadataHash=0)).failed == {}
    log = Log("4.0").record(11, epoch(2, metadataHash=0x0101000000000000))
    assert (log.failed, log.group().group_epoch, log.group().metadata_hash) == ({}, 2, None)
    log = Log("4.0").record(11, epoch(2, metadataHash=0x0101700000000000))
    assert (log.failed.keys(), log.states()) == ({0}, {})
