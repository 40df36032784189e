"""Golden vectors of Kafka 4.3.1: every field, cut at every length, with bytes left over, null and empty."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from kgroups_spark.messages.coordinator_records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    GroupRecordDecoder,
    Undecodable,
)
from kgroups_spark.messages.group_metadata import BlobTexts
from kgroups_spark.messages.offset_commits import OffsetCommitDecoder
from kgroups_spark.messages.schema import MessageReader, Truncated
from tests.messages.compared import group_record, offset_commits, slow_outcome
from tests.messages.vectors import ALL, KEY_OF_TYPE, assert_has, vectors
from tests.slow_messages import slow_offset_commit

GROUP_VALUES = [p for p in vectors("value") if p.values[0]["type"] >= 2]
OFFSET_VALUES = [p for p in vectors("value") if p.values[0]["type"] < 2]
BLOBS = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def test_the_vectors_cover_every_record_type_of_a_release():
    assert {v["type"] for v in ALL if v["kind"] == "value"} == set(CONSUMER_OFFSETS) - {9}


@pytest.mark.parametrize("vector", vectors("key", "share_key"))
def test_keys(vector):
    types = CONSUMER_OFFSETS if vector["kind"] == "key" else SHARE_GROUP_STATE
    data, notes = bytes.fromhex(vector["hex"]), []
    read = MessageReader(types[vector["type"]].key, 0).read
    assert read(data, 2, notes) == (vector["fields"], len(data)) and not notes
    for length in range(2, len(data)):
        with pytest.raises(Truncated, match="Key version 0 cannot be read: "):
            read(data[:length], 2, notes)


@pytest.mark.parametrize("vector", vectors("share_value"))
def test_share_group_state_values(vector):
    data, notes = bytes.fromhex(vector["hex"]), []
    read = MessageReader(SHARE_GROUP_STATE[vector["type"]].layouts[0], 0).read
    fields, end = read(data, 2, notes)
    assert_has(fields, vector["fields"])
    assert end == len(data) and not notes
    for length in range(2, len(data)):
        with pytest.raises(Truncated, match="Value version 0 cannot be read: "):
            read(data[:length], 2, notes)


@pytest.mark.parametrize("vector", GROUP_VALUES)
def test_group_values(vector):
    key, value = KEY_OF_TYPE[vector["type"]], bytes.fromhex(vector["hex"])
    found = GroupRecordDecoder().decode(key, value)
    assert (found.value_version, found.layout, found.keeps_raw) == (vector["version"], "", False)
    assert_has(without_parsed_blobs(found.value), without_blobs(vector["fields"]))


@pytest.mark.parametrize("vector", GROUP_VALUES)
def test_group_values_cut_at_every_length_and_with_bytes_left_over(vector):
    key, value = KEY_OF_TYPE[vector["type"]], bytes.fromhex(vector["hex"])
    decoder = GroupRecordDecoder()
    for length in range(len(value)):
        found = group_record(decoder, key, value[:length])
        assert found == slow_outcome(key, value[:length])
        assert found["outcome"] in ("truncated", "empty_value") or found["layout"] in ("3.7", "4.0")
    whole, more = decoder.decode(key, value), decoder.decode(key, value + b"\x07\x00")
    assert more.value == whole.value and more.keeps_raw


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


@pytest.mark.parametrize("vector", vectors("key"))
def test_a_key_of_every_type_as_a_tombstone_and_cut_at_every_length(vector):
    key = bytes.fromhex(vector["hex"])
    if vector["type"] < 2:
        pairs = [(key[:length], None) for length in range(2, len(key) + 1)]
        found = offset_commits(OffsetCommitDecoder(), pairs)
        assert [one["outcome"] for one in found] == ["truncated"] * (len(pairs) - 1) + ["tombstone"]
        return
    decoder = GroupRecordDecoder()
    assert decoder.decode(key, None).is_tombstone
    cut = [decoder.decode(key[:length], None) for length in range(len(key))]
    assert all(isinstance(one, Undecodable) and one.reason == "truncated" for one in cut)


def read_blob(name: str, blob: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """{"version": ..., fields} of a blob, None if a client could not read it; and notes on the fields it lacks."""
    notes: list[str] = []
    text = BlobTexts(name).text(blob, notes)
    return (orjson.loads(text) if text else None), notes


@pytest.mark.parametrize("vector", vectors("subscription", "assignment"))
def test_protocol_blobs(vector):
    blob, expected = bytes.fromhex(vector["hex"]), vector["fields"]
    parsed, notes = read_blob(BLOBS[vector["kind"]], blob)
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
        assert read_blob(BLOBS[vector["kind"]], blob[:length]) == (None, [])


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
    if isinstance(value, dict):
        assert not any(name.endswith("Raw") for name in value)
        for name in ("subscription", "assignment"):
            assert value.get(name, {"version": 3})["version"] == 3
        return without_blobs(value)
    return value
