"""Golden vectors of Kafka 4.3.1 (and 4.0.2) of all logs: every field, cut at every length, with bytes left over,
null and empty."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import orjson
import pytest

from kgroups_spark.messages.coordinator_records import (
    CONSUMER_OFFSETS,
    COORDINATOR_LOGS,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorRecordDecoder,
    GroupRecordDecoder,
    Undecodable,
    absolute_hashes,
    java_hashes,
)
from kgroups_spark.messages.group_metadata import BlobTexts
from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.messages.compared import assert_decoded_as_the_slow_decoder, changed, group_record, offset_commits
from tests.messages.group_record_bytes import COOPERATIVE, KEY, SUBSCRIPTION, group_metadata, text
from tests.messages.vectors import ALL, KEY_OF_TYPE, assert_has, records, vectors
from tests.slow_messages import java_hash, offsets_partition, slow_offset_commit

LOGS = {"share": SHARE_LOG, "transaction": TRANSACTION_LOG}
KEY_BYTES = {(v["kind"].split("_")[0], v["type"]): bytes.fromhex(v["hex"]) for v in ALL if v["kind"].endswith("_key")}
KEY_BYTES |= {("value", number): key for number, key in KEY_OF_TYPE.items()}
OFFSET_VALUES = [p for p in vectors("value") if p.values[0]["type"] < 2]
VALUES = [p for p in vectors("value") if p.values[0]["type"] >= 2]
VALUES += vectors("share_value", "share_value_4.0", "transaction_value")
BLOB_NAMES = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def decoded(log, key, value):
    """`log`: share, transaction, or any other word for __consumer_offsets."""
    decoder = CoordinatorRecordDecoder(LOGS[log]) if log in LOGS else GroupRecordDecoder()
    return decoder.decode(key, value)


def of_vector(vector):
    """The log, key bytes and value bytes of a value vector."""
    log = vector["kind"].split("_")[0]
    return log, KEY_BYTES[log, vector["type"]], bytes.fromhex(vector["hex"])


def test_the_vectors_cover_every_record_type_of_a_release():
    assert {v["type"] for v in ALL if v["kind"] == "value"} == set(CONSUMER_OFFSETS) - {9}


@pytest.mark.parametrize("vector", VALUES)
def test_values_have_every_field_that_kafka_wrote(vector):
    found = decoded(*of_vector(vector))
    assert (found.value_version, found.keeps_raw) == (vector["version"], False)
    assert found.layout == ("4.0" if vector["kind"].endswith("4.0") else "")
    assert_has(without_parsed_blobs(found.value), without_blobs(vector["fields"]))


@pytest.mark.parametrize("vector", VALUES)
def test_values_cut_at_every_length_and_with_bytes_left_over(vector):
    log, key, value = of_vector(vector)
    for length in range(len(value)):
        found = decoded(log, key, value[:length])
        # Nothing of a value that ends early is used, but an early layout may fit what is left of a later value.
        expected = "empty_value" if length == 0 else "truncated"
        assert found.reason == expected if isinstance(found, Undecodable) else found.layout in ("3.7", "4.0")
    whole, more = decoded(log, key, value), decoded(log, key, value + b"\x07\x00")
    if whole.layout == "4.0":  # an early-access layout is taken only where it reads all bytes
        assert not whole.keeps_raw and more.reason == "truncated"
    else:
        assert more.value == whole.value and (whole.keeps_raw, more.keeps_raw) == (False, True)


@pytest.mark.parametrize("vector", vectors("key", "share_key", "transaction_key"))
def test_keys_as_tombstones_and_cut_at_every_length(vector):
    log, key = vector["kind"].split("_")[0], bytes.fromhex(vector["hex"])
    if log == "key" and vector["type"] < 2:
        pairs = [(key[:length], None) for length in range(2, len(key) + 1)]
        found = offset_commits(OffsetCommitDecoder(), pairs)
        assert [one["outcome"] for one in found] == ["truncated"] * (len(pairs) - 1) + ["tombstone"]
        return
    found = decoded(log, key, None)
    assert (found.is_tombstone, found.key, found.keeps_raw) == (True, vector["fields"], False)
    assert found.value is found.value_json() is found.value_version is None
    assert {decoded(log, key[:length], None).reason for length in range(len(key))} == {"truncated"}
    assert decoded(log, key + b"\0", None).keeps_raw


@pytest.mark.parametrize("vector", OFFSET_VALUES)
def test_offset_values_cut_at_every_length_and_with_bytes_left_over(vector):
    key, value = KEY_OF_TYPE[vector["type"]], bytes.fromhex(vector["hex"])
    pairs = [(key, value[:length]) for length in range(len(value))]
    pairs += [(key, value), (key, value + b"\x00"), (key, None)]
    found = offset_commits(OffsetCommitDecoder(), pairs)
    assert found == [slow_offset_commit(*pair) for pair in pairs]
    assert [one["outcome"] for one in found[:3]] == ["empty_value", "truncated", "truncated"]
    assert {one["outcome"] for one in found[2:-3]} == {"truncated"}
    assert [(one["outcome"], one["exact"]) for one in found[-3:]] == [("ok", True), ("ok", False), ("tombstone", True)]
    expected = vector["fields"]
    assert found[-3]["offset"] == found[-2]["offset"] == expected["offset"]
    assert found[-3]["metadata"] == expected["metadata"]
    assert found[-3]["commit_timestamp"] == expected["commitTimestamp"]
    assert found[-3]["leader_epoch"] == expected.get("leaderEpoch", -1)
    assert found[-3]["expire_timestamp"] == expected.get("expireTimestamp", -1)
    topic_id = base64.urlsafe_b64decode(expected.get("topicId", "A" * 22) + "==")
    assert found[-3]["topic_id"] == topic_id


@pytest.mark.parametrize("log", [*LOGS, "value"])
def test_unknown_types_versions_tags_and_null_keys(log):
    """As tombstones, too (T41)."""
    key = KEY_BYTES[log, 0 if log in LOGS else 3]
    assert decoded(log, None, b"").reason == "null_key"
    for number in (-1, 2 if log in LOGS else 18, 99):
        for value in (None, b"\0\0"):
            found = decoded(log, number.to_bytes(2, "big", signed=True) + key[2:], value)
            assert (found.reason, found.record_type) == ("unknown_record_type", number) and found.detail
    for version in (-1, 2, 77):
        found = decoded(log, key, version.to_bytes(2, "big", signed=True) + bytes(100))
        assert (found.reason, found.value_version) == ("unknown_value_version", version)
    value = next(bytes.fromhex(v["hex"]) for v in ALL if v["name"] == "complete commit v1")
    found = decoded("transaction", KEY_BYTES["transaction", 0], value[:-1] + bytes([1, 9, 2]) + b"hi")
    assert found.keeps_raw and found.value["producerId"] == 4711


def test_the_coordinators_logs():
    assert [(log.topic, log.clean_up_policy) for log in COORDINATOR_LOGS.values()] == [
        ("__consumer_offsets", "compact"),
        ("__share_group_state", "delete"),
        ("__transaction_state", "compact"),
    ]
    for log in COORDINATOR_LOGS.values():
        assert {kind.key.topic for kind in log.record_types.values()} == {log.topic}


def read_blob(name, blob):
    """{"version": ..., fields} of a blob, None if a client could not read it; and notes on the fields it lacks."""
    notes = []
    text = BlobTexts(name).text(blob, notes)
    return (orjson.loads(text) if text else None), notes


@pytest.mark.parametrize("vector", vectors("subscription", "assignment"))
def test_protocol_blobs(vector):
    blob, expected = bytes.fromhex(vector["hex"]), vector["fields"]
    parsed, notes = read_blob(BLOB_NAMES[vector["kind"]], blob)
    assert not notes and parsed["version"] == expected["version"]
    assert ("null" if parsed["userData"] is None else base64.b64decode(parsed["userData"]).hex()) == expected[
        "userData"
    ]
    if vector["kind"] == "subscription":
        assert ",".join(parsed["topics"]) == expected["topics"]
        assert partitions(parsed["ownedPartitions"]) == expected["owned"]
        assert (parsed["generationId"], parsed["rackId"] or "") == (expected["generationId"], expected["rackId"])
    else:
        assert partitions(parsed["assignedPartitions"], each=True) == expected["partitions"]
    for length in range(len(blob)):
        assert read_blob(BLOB_NAMES[vector["kind"]], blob[:length]) == (None, [])


def partitions(found, each=False):
    """a:0,1 or, each with its topic, a:0,a:1."""
    if each:
        return ",".join(f"{one['topic']}:{p}" for one in found for p in one["partitions"])
    return ",".join(f"{one['topic']}:{','.join(map(str, one['partitions']))}" for one in found)


def without_blobs(fields):
    """The vector's fields but for the blobs, which it has as base64."""
    if isinstance(fields, dict):
        return {k: without_blobs(v) for k, v in fields.items() if k not in ("subscription", "assignment", "metadata")}
    return [without_blobs(one) for one in fields] if isinstance(fields, list) else fields


def without_parsed_blobs(value):
    """The same of a decoded value; every blob in the vectors can be parsed."""
    assert not any(name.endswith("Raw") for name in value)
    for name in ("subscription", "assignment"):
        assert value.get(name, {"version": 3})["version"] == 3
    return without_blobs(value)


def test_names_hash_to_the_partitions_that_kafka_gives_them():
    of_groups = [vector.values[0]["fields"] for vector in vectors("partition")]
    names = ["", *(each["group"] for each in of_groups)]
    assert java_hashes(names).tolist() == [0, *(each["hash"] for each in of_groups)] == list(map(java_hash, names))
    for count in (50, 1, 7):
        assert (absolute_hashes(names[1:]) % count).tolist() == [each[f"p{count}"] for each in of_groups]
        assert (absolute_hashes(names) % count).tolist() == [offsets_partition(name, count) for name in names]
    # A transactional id. ShareCoordinatorService.partitionFor, 4.3.1. The hash is the smallest int.
    others = ["test-group", "connect-sink-1", "sg:ASNFZ4mrze8RIjNEVWZ3iA:4", "polygenelubricants"]
    assert (absolute_hashes(others) % 50).tolist() == [12, 42, 10, 0]


# Fast decoders against the slow one: golden vectors changed at random, odd protocol blobs, whole captured segments.
SEGMENTS = sorted((Path(__file__).parent.parent / "data" / "segments").glob("**/__consumer_offsets-*/*.log"))
SPECIAL = ["ffffffff", "7fffffff", "80000000", "8080808008", "ffffffff0f", "ff7f", "eda080", "8200", "01000400000000"]


@pytest.mark.parametrize("seed", range(8))
def test_changed_golden_vectors(seed):
    chance, pairs = random.Random(seed), []
    for key, value in records() * 8:
        for _ in range(chance.randrange(1, 3)):
            value = changed(chance, value)
        if len(value) > 8 and chance.random() < 0.3:
            at = chance.randrange(2, len(value) - 4)
            value = value[:at] + bytes.fromhex(chance.choice(SPECIAL)) + value[at + 4 :]
        pairs.append((key, value))
    outcomes = {group_record(GroupRecordDecoder(), *pair)["outcome"] for pair in pairs if pair[0][1] > 1}
    assert outcomes >= {"ok", "truncated", "unknown_value_version"}
    assert_decoded_as_the_slow_decoder(pairs)


BLOBS = [
    b"",
    b"\0",
    SUBSCRIPTION,
    SUBSCRIPTION[:-1],
    b"\xff\xff" + SUBSCRIPTION[2:],
    b"\0\1" + SUBSCRIPTION[2:],
]
BLOBS += [
    COOPERATIVE,
    bytes.fromhex("0009 00000001 0001 61 ffffffff 00000000 00000007 ffff") + b"of a newer version",
]
BLOBS += [version + text("http://w:8083/") + bytes(7) + b"\7\xff\xff\xff\xff" for version in (b"\0\0", b"\0\2")]
BLOBS += [
    version + error + text("w") + text("u") + bytes(7) + b"\7" + connectors
    for version in (b"\0\0", b"\0\1", b"\0\2")
    for error in (b"\0\0", b"\0\1")
    for connectors in (bytes(4), bytes.fromhex("00000001 0001 63 00000002 ffffffff 00000000 ffffffff 00000005"))
]


@pytest.mark.parametrize("kind", ["consumer", "connect", "", "sr", "Consumer", 'a"\\\n\0\u2028\U0001f600\x7f'])
def test_protocol_blobs_of_clients(kind):
    assert_decoded_as_the_slow_decoder([(KEY, group_metadata(kind, one, two)) for one in BLOBS for two in BLOBS])


@pytest.mark.parametrize("path", SEGMENTS, ids=["/".join(p.parts[-3:-1]) for p in SEGMENTS])
def test_captured_segments(path):
    """Recorded from real brokers; names of folders have the version."""
    pairs = []
    with path.open("rb") as file:
        for chunk in read_segment(file):
            assert isinstance(chunk, RecordColumns)
            commits, others, control = classify(chunk)
            assert len(commits) + len(others) + len(control) == len(chunk)
            pairs += [(chunk.key(row), chunk.value(row)) for row in [*commits.tolist(), *others.tolist()]]
    assert pairs
    assert_decoded_as_the_slow_decoder(pairs)
