"""Classic groups: cases T8 to T11, T15, T16, T32, T43, T44 of the semantics, as far as the state shows them."""

from __future__ import annotations

import base64

import pytest

from tests.coordinator.records import Log, T, classic, classic_member, consumer_member


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
    log = Log("3.9").append("group_record", record_type=2, group_id="g", value=classic([member]), value_version=3)
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
        log = Log(version).append(
            "group_record", record_type=2, group_id="g", value=classic(timestamp=7), **value_version
        )
        return log.group().current_state_timestamp

    assert read({"value_version": 2}) == 7
    assert read({"value_version": 3}) == (7 if is_read else None)


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


def test_t16_the_version_of_a_subscription_does_not_matter():
    blob = b"\0\x09" + b"\0\0\0\1\0\1x" + b"\xff\xff\xff\xff" + b"whatever"
    row = Log().record(2, classic([classic_member("m1", subscriptionRaw=raw(blob))])).members()["m1"]
    assert row.subscribed_topics == ["x"]


def test_t32_a_value_replaces_a_group_of_any_type():
    log = Log().record(5, consumer_member(), "m").record(2, classic([classic_member("m1")]))
    assert (log.states(), list(log.members())) == ({"g": "classic Stable"}, ["m1"])


def test_t43_a_placeholder_is_a_simple_group_with_a_record():
    row = Log().record(2, classic(protocol_type="", generation=0)).group()
    assert (row.is_simple, row.protocol_type, row.log_offset) == (True, None, 0)


def test_t44_the_first_member_leads_where_none_is_stored():
    members = [classic_member("z"), classic_member("a")]
    assert Log().record(2, classic(members)).group().leader == "z"
    assert Log().record(2, classic(members, leader="a")).group().leader == "a"


def test_a_repeated_instance_id_fails_and_changes_nothing():
    twice = [classic_member("m1", groupInstanceId="i"), classic_member("m2", groupInstanceId="i")]
    log = Log().record(2, classic()).record(2, classic(twice))
    assert log.failed[1].startswith("Static member with groupInstanceId=i cannot be added")
    assert log.states() == {"g": "classic Empty"}
    assert Log("3.0").record(2, classic(twice)).failed.keys() == {0}
    assert len(Log("2.8").record(2, classic(twice)).members()) == 2


def test_a_repeated_member_id_fails_where_another_member_follows():
    twice = [classic_member("m1"), classic_member("m1")]
    assert Log().record(2, classic(twice)).group().member_count == 1
    three = classic([*twice, classic_member("m2")])
    assert Log().record(2, three).failed.keys() == Log("2.1").record(2, three).failed.keys() == {0}
    assert len(Log("2.0").record(2, three).members()) == 2


def test_a_tombstone_removes_a_group_of_any_type():
    assert Log().record(3, {"epoch": 1, "metadataHash": 0}).record(2, None).states() == {}


@pytest.mark.parametrize(
    ("version", "kept"), [("0.11", None), ("1.0.0", None), ("1.0", "consumer"), ("1.1", "consumer")]
)
def test_empty_groups_lose_their_protocol_type_before_kafka_6287(version, kept):
    assert Log(version).record(2, classic()).group().protocol_type == kept


def test_an_empty_protocol_type_with_members_is_not_simple():
    row = Log().record(2, classic([classic_member("m1")], protocol_type="")).group()
    assert (row.is_simple, row.protocol_type) == (False, "")


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
    shard = Log().commit(1, group="test-group").shard  # its partition of 50 is 12, the shard's 0
    rows = [row for count in (50, 1, None) for row in shard.group_rows(count)]
    assert [row.is_misplaced for row in rows] == [True, False, None]
