"""Rules of one group record: which outcome, which layout, what is kept."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pytest

from kgroups_spark.messages.coordinator_records import (
    REASONS,
    GroupRecordDecoder,
    RecordsDecoder,
    Undecodable,
    layout_of,
    value_from_json,
)
from kgroups_spark.messages.group_metadata import user_data_json
from tests.messages.group_record_bytes import EARLY, TOPIC_METADATA
from tests.messages.vectors import KEY_OF_TYPE, records
from tests.views.recorded import tables_of

UUID_TEXT = "ASNFZ4mrze8RIjNEVWZ3iA"


def decode(number, value):
    return GroupRecordDecoder().decode(KEY_OF_TYPE[number], value)


# ---- outcomes


def test_an_undecodable_record_has_its_group_its_member_and_the_reason():
    found = decode(5, b"\0\0\0")
    assert isinstance(found, Undecodable) and found.reason in REASONS
    assert (found.group_id, found.member_id, found.value_version) == ("cg", "m", 0)
    assert found.detail == (
        "ConsumerGroupMemberMetadataValue version 0 cannot be read: the bytes end too early (3 bytes in all)"
    )


def test_keys_with_bytes_left_over_or_improper_text_keep_the_raw_bytes():
    decoder = GroupRecordDecoder()
    assert decoder.decode(KEY_OF_TYPE[3] + b"!", None).keeps_raw
    found = decoder.decode(b"\0\3\0\1\xff", None)
    assert found.keeps_raw and found.group_id == "\ufffd"
    assert not decoder.decode(KEY_OF_TYPE[3], None).keeps_raw


def test_unknown_tags_decode_and_keep_the_raw_bytes():
    found = decode(3, bytes.fromhex("0000 0000000a 01 63 02 aabb"))
    assert found.value == {"epoch": 10, "metadataHash": 0} and found.keeps_raw


# ---- early-access layouts (T58)


@pytest.mark.parametrize(("number", "layout", "value", "some"), EARLY, ids=[f"type {e[0]}" for e in EARLY])
def test_an_early_access_layout_is_taken_if_only_it_reads_all_bytes(number, layout, value, some):
    found = decode(number, value)
    assert found.layout == layout and not found.keeps_raw
    assert some.items() <= found.value.items()
    released = [v for k, v in records() if k == KEY_OF_TYPE[number]]
    assert set(found.value) >= set(decode(number, released[0]).value)
    assert layout_of(number, value_from_json(found.value_json())) == layout
    read = [value_from_json(decode(number, value).value_json()) for value in released if value]
    assert {layout_of(number, value) for value in read} == {""}


def test_left_over_bytes_stay_with_the_released_layout_if_no_early_one_fits():
    found = decode(8, bytes.fromhex("0000 00000003 00000002 00 01 01 00 63"))
    assert (found.layout, found.keeps_raw, found.value["state"]) == ("", True, 0)


def test_an_early_layout_must_read_all_bytes():
    assert decode(11, bytes.fromhex("0000 00000003 00 63")).reason == "truncated"


def test_an_early_layout_that_fits_only_by_unknown_tags_is_not_taken():
    value = bytes.fromhex("0000 01 02 c749cd4ba6e287ea163cf94bc16c74d6 07 636c69636b73 02 00000000 00 01 00")
    found = decode(15, value)
    assert (found.layout, found.value["initializingTopics"]) == ("", [])
    assert found.value["initializedTopics"][0]["topicName"] == "clicks"


def test_bytes_that_fit_both_layouts_wholly_are_read_as_released_and_say_so():
    # released: no topics, one unknown tag (5) of 2 bytes; 3.7: error 1, no topics, metadata version 0x0502, no bytes
    found = decode(7, bytes.fromhex("0000 01 01 05 02 01 00"))
    assert (found.layout, found.value, found.keeps_raw) == ("?3.7", {"topicPartitions": []}, True)


def test_type_9_is_known_in_the_layout_of_4_0_only():
    found = GroupRecordDecoder().decode(b"\0\x09\0\2sg", b"\0\0" + TOPIC_METADATA + b"\0")
    topic = {"topicId": UUID_TEXT, "topicName": "t", "numPartitions": 2}
    topic["partitionMetadata"] = [{"partition": 0, "racks": ["r"]}]
    assert (found.layout, found.value) == ("4.0", {"topics": [topic]})


def test_a_reused_decoder_equals_a_new_one_for_every_record():
    decoder = GroupRecordDecoder()
    all_records = [(k, v) for k, v in records() if k[1] >= 2]
    again = [decoder.decode(k, v).value_json() for _ in range(2) for k, v in all_records]
    assert again == [GroupRecordDecoder().decode(k, v).value_json() for k, v in all_records] * 2


@pytest.mark.parametrize(
    ("topic", "name", "reason", "says"),
    [
        ("__consumer_offsets", "GroupMetadata", None, None),
        (
            "src.__consumer_offsets",
            None,
            "other_topic",
            "topic src.__consumer_offsets is not a coordinator's log; for a",
        ),
        ("orders", None, "other_topic", "as the argument topic: decode(frame, topic='__consumer_offsets')"),
        ("", None, "other_topic", "the row has no topic; for a copy of a log give its name as the argument topic"),
        (None, None, None, None),  # a control record
    ],
)
def test_a_record_of_another_topic_has_a_reason(topic, name, reason, says):
    (row,) = RecordsDecoder().decode([topic], pa.array([KEY_OF_TYPE[2]]), pa.array([None], pa.binary())).to_pylist()
    assert (row["record_name"], row["reason"]) == (name, reason)
    assert (row["detail"] is None) == (says is None) and (says or "") in (row["detail"] or "")


# User data of assignors as JSON: bytes as Kafka's clients write them, and those that brokers recorded.
PREVIOUS = struct.pack(">ih6sii", 1, 6, b"orders", 1, 3)  # orders-3


def of(protocol: str | None, data: bytes | None) -> object:
    text = user_data_json(protocol, data)
    return None if text is None else json.loads(text)


def test_sticky_assignors_remember_partitions_and_a_generation() -> None:
    previous = [{"topic": "orders", "partitions": [3]}]
    assert of("sticky", PREVIOUS + struct.pack(">i", 7)) == {"previousAssignment": previous, "generation": 7}
    assert of("sticky", PREVIOUS) == {"previousAssignment": previous, "generation": -1}
    assert of("cooperative-sticky", struct.pack(">i", 7)) == {"generation": 7}


def test_streams_remembers_its_process_and_tasks() -> None:
    data = struct.pack(">ii16s", 6, 9, bytes(15) + b"\1") + struct.pack(">iiiiii", 1, 0, 2, 1, 1, 3)
    read = of("stream", data + struct.pack(">i2s", 2, b"h:"))
    assert isinstance(read, dict)
    assert (read["version"], read["processId"]) == (6, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert read["prevTasks"] == [{"topicGroupId": 0, "partition": 2}]
    assert read["standbyTasks"] == [{"topicGroupId": 1, "partition": 3}]
    assert (read["userEndPoint"], read["taskOffsetSums"]) == ("aDo=", [])
    sums = struct.pack(">iiiqh", 1, 0, 2, -2, -1)
    newest = struct.pack(">ii16si", 11, 11, bytes(15) + b"\1", 0) + sums + struct.pack(">bii", 1, 0, 0)
    read = of("stream", newest)
    assert isinstance(read, dict)
    [offset_sum] = read["taskOffsetSums"]
    assert (offset_sum["topicGroupId"], offset_sum["partition"], offset_sum["offsetSum"]) == (0, 2, -2)
    assert (read["uniqueField"], read["prevTasks"]) == (1, [])


@pytest.mark.parametrize(
    ("protocol", "data"),
    [
        ("range", PREVIOUS),
        (None, PREVIOUS),
        ("sticky", None),
        ("sticky", b""),
        ("sticky", PREVIOUS[:-1]),
        ("sticky", PREVIOUS + b"\0"),
        ("cooperative-sticky", b"\0\0\0\1\0"),
        ("stream", struct.pack(">i", 12) + bytes(40)),
        ("stream", b"\0\0"),
    ],
)
def test_what_is_not_known_is_none(protocol: str | None, data: bytes | None) -> None:
    assert of(protocol, data) is None


@pytest.mark.parametrize("corpus", ["streams-4.3", "classic-4.3"])
def test_what_clients_wrote_is_read(corpus: str) -> None:
    tables = tables_of(corpus)
    protocols = {row["group_id"]: row["protocol"] for row in tables["groups"].to_pylist()}
    known = ("sticky", "cooperative-sticky", "stream")
    members = [row for row in tables["group_members"].to_pylist() if row["user_data"]]
    read = [row for row in members if protocols[row["group_id"]] in known]
    assert read
    for row in read:
        assert row["user_data_json"] is not None, row
        fields = json.loads(row["user_data_json"])
        assert "generation" in fields or {"processId", "taskOffsetSums"} <= fields.keys()
