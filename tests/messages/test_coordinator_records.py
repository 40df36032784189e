"""`__share_group_state` and `__transaction_state`: vectors of Kafka 4.3.1 and 4.0.2, whole and cut."""

from __future__ import annotations

import pytest

from kgroups_spark.messages.coordinator_records import (
    COORDINATOR_LOGS,
    GROUP_LOG,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorRecordDecoder,
    Undecodable,
)
from tests.messages.vectors import ALL, assert_has, vectors

VALUES = vectors("share_value", "share_value_4.0", "transaction_value")
KEYS = vectors("share_key", "transaction_key")
KEY_BYTES = {(v["kind"].split("_")[0], v["type"]): bytes.fromhex(v["hex"]) for v in ALL if v["kind"].endswith("_key")}
LOGS = {"share": SHARE_LOG, "transaction": TRANSACTION_LOG}


def of_vector(vector):
    """The log's name, key bytes and value bytes of a value vector."""
    coordinator = vector["kind"].split("_")[0]
    return coordinator, KEY_BYTES[coordinator, vector["type"]], bytes.fromhex(vector["hex"])


def decoded(coordinator, key, value):
    return CoordinatorRecordDecoder(LOGS[coordinator]).decode(key, value)


@pytest.mark.parametrize("vector", VALUES)
def test_values_have_every_field_that_kafka_wrote(vector):
    coordinator, key, value = of_vector(vector)
    found = decoded(coordinator, key, value)
    assert (found.value_version, found.keeps_raw) == (vector["version"], False)
    assert found.layout == ("4.0" if vector["kind"].endswith("4.0") else "")
    assert_has(found.value, vector["fields"])


@pytest.mark.parametrize("vector", VALUES)
def test_values_cut_at_every_length_and_with_bytes_left_over(vector):
    coordinator, key, value = of_vector(vector)
    for length in range(len(value)):
        found = decoded(coordinator, key, value[:length])
        # Nothing of a value that ends early is used, but 4.0's layout may fit what is left of a value of 4.1.
        expected = "empty_value" if length == 0 else "truncated"
        assert found.reason == expected if isinstance(found, Undecodable) else found.layout == "4.0"
    whole, more = decoded(coordinator, key, value), decoded(coordinator, key, value + b"\x07\x00")
    if whole.layout == "4.0":  # an early-access layout is taken only where it reads all bytes
        assert not whole.keeps_raw and more.reason == "truncated"
    else:
        assert more.value == whole.value and (whole.keeps_raw, more.keeps_raw) == (False, True)


@pytest.mark.parametrize("vector", KEYS)
def test_keys_as_tombstones_and_cut_at_every_length(vector):
    coordinator, key = vector["kind"].split("_")[0], bytes.fromhex(vector["hex"])
    found = decoded(coordinator, key, None)
    assert (found.is_tombstone, found.key, found.keeps_raw) == (True, vector["fields"], False)
    assert found.value is found.value_json() is found.value_version is None
    assert {decoded(coordinator, key[:length], None).reason for length in range(len(key))} == {"truncated"}
    assert decoded(coordinator, key + b"\0", None).keeps_raw


@pytest.mark.parametrize("coordinator", LOGS)
def test_unknown_types_versions_tags_and_null_keys(coordinator):
    key = KEY_BYTES[coordinator, 0]
    assert decoded(coordinator, None, b"").reason == "null_key"
    for number in (-1, 2, 99):
        for value in (None, b"\0\0"):
            found = decoded(coordinator, number.to_bytes(2, "big", signed=True) + key[2:], value)
            assert (found.reason, found.record_type) == ("unknown_record_type", number) and found.detail
    for version in (-1, 2, 77):
        found = decoded(coordinator, key, version.to_bytes(2, "big", signed=True) + bytes(100))
        assert (found.reason, found.value_version) == ("unknown_value_version", version)
    value = next(bytes.fromhex(v["hex"]) for v in ALL if v["name"] == "complete commit v1")
    found = decoded("transaction", KEY_BYTES["transaction", 0], value[:-1] + bytes([1, 9, 2]) + b"hi")
    assert found.keeps_raw and found.value["producerId"] == 4711


def test_a_log_says_which_partition_a_record_belongs_to():
    group_id, topic_id = "sg", "ASNFZ4mrze8RIjNEVWZ3iA"
    # ShareCoordinatorService.partitionFor, 4.3.1; the others are the hash of one name.
    assert SHARE_LOG.partition_of({"groupId": group_id, "topicId": topic_id, "partition": 4}, 50) == 10
    assert GROUP_LOG.partition_of({"groupId": "test-group"}, 50) == GROUP_LOG.partition_of({"group": "test-group"}, 50)
    assert GROUP_LOG.partition_of({"group": "test-group", "topic": "t", "partition": 1}, 50) == 12
    assert TRANSACTION_LOG.partition_of({"transactionalId": "connect-sink-1"}, 50) == 42
    assert [(log.topic, log.clean_up_policy) for log in COORDINATOR_LOGS.values()] == [
        ("__consumer_offsets", "compact"),
        ("__share_group_state", "delete"),
        ("__transaction_state", "compact"),
    ]


def test_each_log_has_the_types_of_its_own_topic():
    for log in COORDINATOR_LOGS.values():
        assert {kind.key.topic for kind in log.record_types.values()} == {log.topic}
