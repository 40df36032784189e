"""Classic groups: cases T8 to T11, T15, T16, T32, T43, T44 of the semantics, as far as the state shows them."""

from __future__ import annotations

import base64
from unittest import mock

import pytest

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
    everything,
    share_member,
    streams_current,
    streams_member,
    streams_target,
    target,
    target_epoch,
    topology,
)


def raw(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


def test_members_make_a_group_stable_and_its_row_has_the_records_fields():
    value = classic([classic_member("m1"), classic_member("m2")], leader="m2", timestamp=77)
    row = Log().record(2, value).group()
    assert (row.state, row.is_simple, row.protocol_type, row.protocol) == ("Stable", False, "consumer", "range")
    assert (row.generation, row.leader, row.current_state_timestamp, row.member_count) == (3, "m2", 77, 2)
    assert (row.state_since, row.log_offset) == (T, 0)


def test_a_members_row_has_the_records_fields():
    member = classic_member("m1", ["b", "a"], groupInstanceId="i")
    member["subscription"] = {"topics": ["b", "a"], "userData": "AQI=", "rackId": "r"}
    row = Log().record(2, classic([member])).members()["m1"]
    assert (row.group_instance_id, row.client_id, row.client_host, row.rack_id) == ("i", "c", "/h", "r")
    assert (row.rebalance_timeout_ms, row.session_timeout_ms, row.uses_classic_protocol) == (60000, 10000, True)
    assert (row.subscribed_topics, row.user_data, row.log_offset) == (["a", "b"], b"\1\2", 0)
    assert row.assigned_partitions == [("t", None, 0, None)]
    assert (row.member_state, row.member_epoch, row.target_partitions) == (None, None, None)


def test_a_member_that_never_synced_has_no_partitions_and_a_foreign_blob_is_unknown():
    never, foreign = classic_member("a", assignmentRaw=""), classic_member("b", assignmentRaw="AA==")
    rows = Log().record(2, classic([never, foreign])).members()
    assert (rows["a"].assigned_partitions, rows["b"].assigned_partitions) == ([], None)


def test_other_protocols_have_no_topics():
    row = Log().record(2, classic([classic_member("m1")], protocol_type="connect")).members()["m1"]
    assert (row.subscribed_topics, row.assigned_partitions, row.user_data) == (None, None, None)


def test_t08_version_0_has_the_session_timeout_for_both():
    member = classic_member("m1", rebalanceTimeout=-1)
    for version in ("4.3", "3.9"):
        assert Log(version).record(2, classic([member])).members()["m1"].rebalance_timeout_ms == 10000
    log = Log("3.9").record(2, classic([member]), value_version=3)
    assert log.members()["m1"].rebalance_timeout_ms is None


def test_t09_an_unknown_state_timestamp_is_null():
    assert Log().record(2, classic()).group().current_state_timestamp is None
    assert Log().record(2, classic(timestamp=0)).group().current_state_timestamp == 0


@pytest.mark.parametrize(
    ("version", "is_read"),
    [("2.3", False), ("2.5", False), ("2.6.0", False), ("2.6", True), ("2.8", True), ("4.4", True)],
)
def test_the_time_of_the_state_is_read_in_version_2_and_since_kafka_10401_in_version_3_too(version, is_read):
    def read(value_version):
        log = Log(version).record(2, classic(timestamp=7), value_version=value_version)
        return log.group().current_state_timestamp

    assert read(2) == 7
    assert read(3) == (7 if is_read else None)


def test_t15_a_subscription_cut_inside_a_number_is_unknown_and_the_group_is_loaded():
    log = Log().record(2, classic([classic_member("m1", subscriptionRaw=raw(b"\0\1\0\0"))]))
    assert log.failed == {}
    assert log.members()["m1"].subscribed_topics is None


@pytest.mark.parametrize("blob", [b"\0\1\0\0\0\1\0\5ab", b"\0\1\xff\xff\xff\xff", b"\0\1\0\0\0\0\0\0\0\4a"])
def test_t15_a_subscription_cut_inside_a_string_fails_the_load(blob):
    value = classic([classic_member("m1", subscriptionRaw=raw(blob))])
    java, scala = Log("4.3").record(2, value), Log("3.9").record(2, value)
    assert java.failed.keys() == scala.failed.keys() == {0}
    # Java has put the group in place by then, Scala has not.
    assert (java.states(), scala.states()) == ({"g": "classic Stable"}, {})
    assert Log("2.7").record(2, value).failed.keys() == {0}
    for version in ("2.4", "2.6", "4.4"):  # which catch every exception
        other = Log(version).record(2, value)
        assert (other.failed, other.members()["m1"].subscribed_topics) == ({}, None)


def test_the_subscription_of_a_member_that_another_replaced_does_not_matter():
    damaged, sound = classic_member("m1", subscriptionRaw=raw(b"\0\1\xff\xff\xff\xff")), classic_member("m1", ["x"])
    log = Log("4.3").record(2, classic([damaged, sound]))
    assert (log.failed, log.members()["m1"].subscribed_topics) == ({}, ["x"])
    assert Log("4.3").record(2, classic([sound, damaged])).failed.keys() == {0}


def test_t44_the_first_member_leads_where_none_is_stored():
    members = [classic_member("z"), classic_member("a")]
    assert Log().record(2, classic(members)).group().leader == "z"
    assert Log().record(2, classic(members, leader="a")).group().leader == "a"


def test_a_repeated_member_id_fails_where_another_member_follows():
    twice = [classic_member("m1"), classic_member("m1")]
    assert Log().record(2, classic(twice)).group().member_count == 1
    three = classic([*twice, classic_member("m2")])
    assert Log().record(2, three).failed.keys() == Log("2.1").record(2, three).failed.keys() == {0}
    assert len(Log("2.0").record(2, three).members()) == 2


@pytest.mark.parametrize(
    ("version", "kept"), [("0.11", None), ("1.0.0", None), ("1.0", "consumer"), ("1.1", "consumer")]
)
def test_empty_groups_lose_their_protocol_type_before_kafka_6287(version, kept):
    assert Log(version).record(2, classic()).group().protocol_type == kept


def test_t18_a_group_of_offsets_alone_is_simple():
    row = Log().commit(1).group()
    assert (row.is_simple, row.protocol_type, row.generation, row.current_state_timestamp) == (True, None, 0, None)
    assert (row.state_since, row.log_offset) == (T, None)


def test_t29_t30_a_simple_group_is_there_as_long_as_its_offsets_in_scala_and_from_its_first_value_on_in_java():
    aborted, orphaned = (lambda log: log.commit(1, producer=1).end(1, "aborted")), (lambda log: log.commit(1))
    assert [aborted(Log(version)).states() for version in ("4.3", "3.9")] == [{"g": "classic Empty"}, {}]
    logs = [orphaned(Log(version).record(2, classic())).record(2, None) for version in ("4.3", "3.9")]
    assert [log.states() for log in logs] == [{}, {"g": "classic Empty"}]
    assert [log.commit(2, "u").states() for log in logs] == [{"g": "classic Empty"}] * 2
    assert logs[1].tombstone().tombstone("u").states() == {}


def test_a_misplaced_group_is_reported_where_the_number_of_partitions_is_known():
    logs = [Log(offsets_partitions=count).commit(1, group="test-group") for count in (50, 1, None)]
    # Its partition of 50 is 12, the log's 0.
    assert [log.group("test-group").is_misplaced for log in logs] == [True, False, None]


# Consumer groups: cases T31, T32, T34 to T38 of the semantics.
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


@pytest.mark.parametrize(("version", "fails"), [("4.0.1", True), ("4.1.1", True), ("4.0.2", False), ("4.1.2", False)])
def test_taking_and_giving_up_a_partition_that_another_epoch_owns_failed_before_kafka_19862(version, fails):
    log = full(Log(version)).record(8, current(6, 0), "n").record(8, current(6), "m")
    assert log.failed.keys() == ({5, 6} if fails else set())
    # The newer epoch owned it all the same, until it was given up.
    assert log.record(8, current(7, 0), "n").failed.keys() == ({5, 6, 7} if fails else set())


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


# Share and streams groups: cases T33, T39, T40, T55 of the semantics.


def streams(log: Log, validated: int = 1) -> Log:
    """Group g with member m at epoch 2 and topology 1."""
    log.record(19, streams_member(), "m").record(23, topology(1)).record(17, epoch(2, validatedTopologyEpoch=validated))
    log.record(21, streams_target(0, 1), "m").record(20, target_epoch(2))
    return log.record(22, streams_current(2, 1, 0), "m")


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


@pytest.mark.parametrize(("stored", "shown"), [({}, None), (-1, None), (-2, -2), (0, 0), (7, 7)])
def test_a_streams_group_knows_the_topology_description_that_a_plugin_holds(stored, shown):
    fields = stored if stored == {} else {"storedDescriptionTopologyEpoch": stored}
    log = Log().record(17, epoch(1, **fields))
    assert log.group().stored_description_epoch == shown
    assert log.reload().record(3, None).group().stored_description_epoch == shown
    assert log.record(17, epoch(2, storedDescriptionTopologyEpoch=-1)).group().stored_description_epoch is None


def test_t55_an_empty_share_group_stays():
    log = Log().record(11, epoch(2, metadataHash=3))
    row = log.group()
    assert (row.state, row.protocol_type, row.group_epoch, row.metadata_hash) == ("Empty", "share", 2, 3)


def test_a_share_member_forgot_its_state_until_4_1():
    for version, state in (("4.1", "STABLE"), ("4.2", "UNREVOKED_PARTITIONS")):
        log = Log(version).record(14, current(1, state=1), "m").record(10, share_member(), "m")
        assert log.members()["m"].member_state == state


def test_share_partitions_make_the_group():
    topic = {"topicId": X, "topicName": "t", "partitions": [0]}
    value = {"initializingTopics": [], "initializedTopics": [topic], "deletingTopics": []}
    log = Log().record(15, value)
    assert log.states() == {"g": "share Empty"}
    assert Log().record(15, {**value, "initializedTopics": [topic, topic]}).failed.keys() == {0}
    assert Log("4.0").record(15, value).failed.keys() == {0}


def test_4_0_reads_the_hash_of_a_newer_value_as_tags():
    assert Log("4.0").record(11, epoch(2, metadataHash=0)).failed == {}
    log = Log("4.0").record(11, epoch(2, metadataHash=0x0101000000000000))
    assert (log.failed, log.group().group_epoch, log.group().metadata_hash) == ({}, 2, None)
    log = Log("4.0").record(11, epoch(2, metadataHash=0x0101700000000000))
    assert (log.failed.keys(), log.states()) == ({0}, {})


# Version rows: one where a record changed the row, and what a removal leaves.


def groups(log: Log) -> list[tuple]:
    """(log offset, group, state, removed) of the version rows of groups."""
    versions = log.tables.groups("group_versions")
    return [(row.log_offset, row.group_id, row.state, row.is_removed) for row in versions]


def members(log: Log, since: int = 0) -> list[tuple]:
    """(log offset, member, removed) of the version rows of members."""
    versions = log.tables.members("group_member_versions")
    return [(row.log_offset, row.member_id, row.is_removed) for row in versions if row.log_offset >= since]


def test_a_group_of_offsets_has_a_version_where_it_begins():
    log = Log().commit(1).commit(2).commit(3, producer=1).end(1, "committed")
    assert groups(log) == [(0, "g", "Empty", False)]


def test_a_repeated_record_makes_no_version():
    value = classic([classic_member("m1")], leader="m1")
    log = Log().record(2, value).record(2, value).record(2, {**value, "generation": 4})
    assert members(log) == [(0, "m1", False)]
    versions = log.tables.groups("group_versions")
    assert [(row.log_offset, row.state_since) for row in versions] == [(0, T), (2, T)]


def test_only_members_that_changed_have_a_version():
    a, b, c = classic_member("a"), classic_member("b"), classic_member("c")
    log = Log().record(2, classic([a, b])).record(2, classic([dict(a), {**b, "clientHost": "/i"}, c]))
    assert members(log) == [(0, "a", False), (0, "b", False), (1, "b", False), (1, "c", False)]
    assert members(log.record(2, classic([a])), since=2) == [(2, "b", True), (2, "c", True)]


def test_a_record_that_fails_at_a_classic_group_makes_no_version():
    log = Log().record(2, classic([classic_member("m1")])).record(3, epoch(3))
    assert list(log.failed) == [1]
    assert (len(groups(log)), len(members(log))) == (1, 1)


def test_a_removal_leaves_versions_with_the_names_of_group_and_member():
    log = Log().record(2, classic([classic_member("m1")])).record(2, None)
    (_, group), (_, member) = log.tables.groups("group_versions"), log.tables.members("group_member_versions")
    at = {"log_offset": 1, "log_timestamp": T + 1, "is_removed": True}
    assert group == GroupRow(0, "g", "classic", "Dead", False, state_since=T + 1, **at)
    assert member == MemberRow(0, "g", "m1", **at)


def test_a_group_that_changes_its_type_has_a_version_and_loses_its_members():
    log = Log().record(2, classic([classic_member("m1")])).record(2, None).commit(1).record(5, consumer_member(), "m")
    types = [row.group_type for row in log.tables.groups("group_versions")]
    assert types == ["classic", "classic", "classic", "consumer"]
    assert [each[::2] for each in groups(log)] == [(0, "Stable"), (1, "Dead"), (2, "Empty"), (3, "Reconciling")]
    log = Log().record(5, consumer_member(), "m").record(2, classic([classic_member("m1")]))
    assert members(log) == [(0, "m", False), (1, "m", True), (1, "m1", False)]


def test_records_of_a_member_change_only_its_row():
    log = Log().record(5, consumer_member(), "m").record(5, consumer_member(), "n").record(3, epoch(2))
    log.record(7, target(0), "m").record(6, target_epoch(2)).record(8, current(2, 0), "m").record(8, current(2), "n")
    assert members(log, since=3) == [(3, "m", False), (5, "m", False), (6, "n", False)]
    assert [each[::2] for each in groups(log)[-2:]] == [(4, "Reconciling"), (6, "Stable")]
    (row,) = (row for row in log.tables.members("group_member_versions") if row.log_offset == 5)
    assert row.assigned_partitions == [(None, X, 0, 2)]
    with mock.patch("kgroups_spark.coordinator.versions.member_facts") as compared:  # a group may have 10,000
        assert groups(log.record(3, epoch(3)))[-1][::2] == (7, "Assigning")
    assert not compared.called


def test_state_since_is_the_record_that_led_to_the_state():
    log = Log().record(2, classic([classic_member("m1")])).record(2, classic([classic_member("m1")], generation=4))
    assert (log.group().state, log.group().state_since) == ("Stable", T)
    assert log.record(2, classic()).group().state_since == T + 2
    assert log.record(2, classic(generation=9)).group().state_since == T + 2
    assert log.commit(1).group().state_since == T + 2
    assert log.record(2, None).commit(1).group().state_since == T + 6


def test_a_record_that_fails_half_way_has_its_version():
    log = Log().record(8, current(1, 0), "m").record(8, current(1, 0), "n")
    assert log.failed.keys() == {1}
    assert members(log) == [(0, "m", False), (1, "n", False)]


def test_scala_groups_come_and_go_with_their_offsets():
    log = Log("3.9").commit(1).commit(2, "u", producer=1).tombstone().end(1, "aborted").commit(3)
    assert groups(log) == [(0, "g", "Empty", False), (3, "g", "Dead", True), (4, "g", "Empty", False)]
    log = Log("3.9").commit(1, group="a", producer=1).commit(1, group="b", producer=1).end(1, "aborted")
    assert [version[:2] for version in groups(log)] == [(0, "a"), (1, "b"), (2, "a"), (2, "b")]
    log = Log("3.9").commit(1).record(2, classic([classic_member("m")])).record(2, None)
    assert [version[2] for version in groups(log)] == ["Empty", "Stable", "Empty"]


# Saving and loading: the state goes on as if nothing had happened (R2).


@pytest.mark.parametrize("version", ["4.3", "4.1", "4.0.0", "3.9"])
def test_a_loaded_state_has_the_same_rows(version):
    log, loaded = everything(version), everything(version).reload()
    for each in (log, loaded):
        each.end(99, "aborted")
    assert loaded.tables.groups() == log.tables.groups()
    assert loaded.tables.members() == log.tables.members()


def test_state_that_no_table_shows_survives_too():
    log = Log().record(8, current(5, 0), "m").record(8, current(6, 0), "n").record(8, current(7), "n")
    log.reload()
    # Partition 0 has no owner any more, although m's row says that m does.
    assert log.record(8, current(5, 0), "k").failed == {}
    assert log.record(8, current(5, 0), "l").failed.keys() == {4}


def test_a_state_from_before_a_failure_survives_too():
    log = Log().record(5, consumer_member(), "m").record(8, current(1, 0), "m").record(8, current(1, 0, state=2), "n")
    assert (log.failed.keys(), log.states()) == ({2}, {"g": "consumer Stable"})
    log.reload()
    assert (log.states(), list(log.members())) == ({"g": "consumer Stable"}, ["m", "n"])
