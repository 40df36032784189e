"""Share and streams groups: fields of their rows, and rules of single releases (T33, T39, T40)."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.state_entries import saved_and_loaded
from tests.coordinator.records import (
    Log,
    X,
    current,
    epoch,
    share_member,
    streams_current,
    streams_member,
    streams_target,
    target_epoch,
    topology,
)


def streams(log: Log, validated: int = 1) -> Log:
    """Group g with member m at epoch 2 and topology 1."""
    log.record(19, streams_member(), "m").record(23, topology(1)).record(17, epoch(2, validatedTopologyEpoch=validated))
    log.record(21, streams_target(0, 1), "m").record(20, target_epoch(2))
    return log.record(22, streams_current(2, 1, 0), "m")


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


def test_a_share_member_forgot_its_state_until_4_1():
    for version, state in (("4.1", "STABLE"), ("4.2", "UNREVOKED_PARTITIONS")):
        log = Log(version).record(14, current(1, state=1), "m").record(10, share_member(), "m")
        assert log.members()["m"].member_state == state


def test_share_partitions_make_the_group_and_name_topics():
    topic = {"topicId": X, "topicName": "t", "partitions": [0]}
    value = {"initializingTopics": [], "initializedTopics": [topic], "deletingTopics": []}
    log = Log().record(15, value)
    assert (log.states(), [row.topic for row in log.shard.topic_rows()]) == ({"g": "share Empty"}, ["t"])
    assert Log().record(15, {**value, "initializedTopics": [topic, topic]}).failed.keys() == {0}
    assert Log("4.0").record(15, value).failed.keys() == {0}
