"""`__share_group_state` and `__transaction_state`: vectors of Kafka 4.3.1 and 4.0.2, cut, damaged, against the twin."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.messages.coordinator_records import (
    COORDINATOR_LOGS,
    GROUP_LOG,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorRecordDecoder,
    Undecodable,
)
from tests.messages.slow_coordinator_records import slow_outcome
from tests.messages.vectors import ALL, assert_has, vectors

VALUES = vectors("share_value", "share_value_4.0", "transaction_value")
KEYS = vectors("share_key", "transaction_key")
KEY_BYTES = {(v["kind"].split("_")[0], v["type"]): bytes.fromhex(v["hex"]) for v in ALL if v["kind"].endswith("_key")}
LOGS = {"share": SHARE_LOG, "transaction": TRANSACTION_LOG}


def of_vector(vector):
    """The log's name, key bytes and value bytes of a value vector."""
    coordinator = vector["kind"].split("_")[0]
    return coordinator, KEY_BYTES[coordinator, vector["type"]], bytes.fromhex(vector["hex"])


def outcome(coordinator, key, value):
    """The decoder's outcome in the form of the twin's."""
    found = CoordinatorRecordDecoder(LOGS[coordinator]).decode(key, value)
    if isinstance(found, Undecodable):
        assert found.detail
        named = {"record_type": found.record_type, "record_name": found.record_name, "version": found.value_version}
        key_fields = {
            "groupId": found.group_id,
            "topicId": found.topic_id,
            "partition": found.partition,
            "transactionalId": found.transactional_id,
        }
        named["key"] = {name: field for name, field in key_fields.items() if field is not None} or None
        return {"outcome": found.reason} | {name: part for name, part in named.items() if part is not None}
    out = {"record_type": found.record_type, "record_name": found.record_name, "key": found.key}
    if found.is_tombstone:
        assert found.value is None and found.value_json() is None and found.value_version is None
        return out | {"outcome": "tombstone", "exact": not found.keeps_raw}
    out |= {"version": found.value_version, "outcome": "ok", "value": found.value, "layout": found.layout}
    return out | {"exact": not found.keeps_raw}


@pytest.mark.parametrize("vector", VALUES)
def test_values_have_every_field_that_kafka_wrote(vector):
    coordinator, key, value = of_vector(vector)
    found = CoordinatorRecordDecoder(LOGS[coordinator]).decode(key, value)
    assert (found.value_version, found.keeps_raw) == (vector["version"], False)
    assert found.layout == ("4.0" if vector["kind"].endswith("4.0") else "")
    assert_has(found.value, vector["fields"])


@pytest.mark.parametrize("vector", VALUES)
def test_values_cut_at_every_length_and_with_bytes_left_over(vector):
    coordinator, key, value = of_vector(vector)
    for length in range(len(value)):
        found = outcome(coordinator, key, value[:length])
        assert found == slow_outcome(coordinator, key, value[:length])
        # Nothing of a value that ends early is used, but 4.0's layout may fit what is left of a value of 4.1.
        assert found["outcome"] in ("truncated", "empty_value") or found["layout"] == "4.0"
    whole, more = outcome(coordinator, key, value), outcome(coordinator, key, value + b"\x07\x00")
    if whole["layout"] == "4.0":  # an early-access layout is taken only where it reads all bytes
        assert whole["exact"] and more["outcome"] == "truncated"
    else:
        assert more["value"] == whole["value"] and (whole["exact"], more["exact"]) == (True, False)


@pytest.mark.parametrize("vector", KEYS)
def test_keys_as_tombstones_and_cut_at_every_length(vector):
    coordinator, key = vector["kind"].split("_")[0], bytes.fromhex(vector["hex"])
    assert outcome(coordinator, key, None) == slow_outcome(coordinator, key, None)
    assert outcome(coordinator, key, None)["key"] == vector["fields"]
    for length in range(len(key)):
        assert outcome(coordinator, key[:length], None) == slow_outcome(coordinator, key[:length], None)
        assert outcome(coordinator, key[:length], None)["outcome"] == "truncated"
    assert outcome(coordinator, key + b"\0", None)["exact"] is False


@pytest.mark.parametrize("vector", VALUES)
def test_values_with_damaged_bytes_decode_as_by_the_slow_decoder(vector):
    coordinator, key, value = of_vector(vector)
    generator = random.Random(vector["name"])
    for at in range(len(value)):
        for byte in (0, 0xFF, 0x80, generator.randrange(256)):
            damaged = value[:at] + bytes([byte]) + value[at + 1 :]
            assert outcome(coordinator, key, damaged) == slow_outcome(coordinator, key, damaged), (at, byte)


@pytest.mark.parametrize("coordinator", LOGS)
def test_unknown_types_versions_tags_and_null_keys(coordinator):
    key = KEY_BYTES[coordinator, 0]
    assert outcome(coordinator, None, b"") == {"outcome": "null_key"}
    for number in (-1, 2, 99):
        unknown = number.to_bytes(2, "big", signed=True) + key[2:]
        for value in (None, b"\0\0"):
            assert outcome(coordinator, unknown, value) == {"outcome": "unknown_record_type", "record_type": number}
    for version in (-1, 2, 77):
        found = outcome(coordinator, key, version.to_bytes(2, "big", signed=True) + bytes(100))
        assert (found["outcome"], found["version"]) == ("unknown_value_version", version)
    value = next(bytes.fromhex(v["hex"]) for v in ALL if v["name"] == "complete commit v1")
    tagged = value[:-1] + bytes([1, 9, 2]) + b"hi"
    found = CoordinatorRecordDecoder(TRANSACTION_LOG).decode(KEY_BYTES["transaction", 0], tagged)
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
