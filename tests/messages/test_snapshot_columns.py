"""Columns of GroupMetadata values agree with their JSON texts, but for blobs that no client could read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.messages.group_metadata import CONSUMER_GROUP, snapshot_columns
from tests.chosen import some_of
from tests.messages.group_record_bytes import KEY, member, snapshot
from tests.messages.made_snapshots import ODD_BLOBS, ODD_TEXTS, Record, Snapshots


def read(records: list[Record]) -> list[tuple[int, dict[str, Any], str]]:
    """Version, value and text of those that are of consumer groups, by the reader of single records."""
    decoder, found = GroupRecordDecoder(), []
    for key, value in records:
        record = decoder.decode(key, value)
        if record.content is not None and record.value["protocolType"] == "consumer":
            found.append((record.value_version, record.value, record.value_json()))
    return found


def by_columns(found: list[tuple[int, dict[str, Any], str]]) -> list[Any]:
    """(header fields, members) of each value; None: a blob in it cannot be read."""
    versions, _, texts = zip(*found, strict=True)
    columns = snapshot_columns(pa.array(texts), pa.array(versions, pa.int16()))
    headers = (tuple(value.values()) for value in columns.values.to_pylist())
    members = columns.members.to_pylist()
    places = zip(columns.first_member.tolist(), columns.member_count.tolist(), strict=True)
    rows = [(header, members[start : start + n]) for header, (start, n) in zip(headers, places, strict=True)]
    return [row if is_readable else None for row, is_readable in zip(rows, columns.is_readable, strict=True)]


def expected(version: int, value: dict[str, Any]) -> Any:
    if any(member.get("subscriptionRaw") or member.get("assignmentRaw") for member in value["members"]):
        return None
    header = tuple(value[name] for name in ("generation", "protocol", "leader", "currentStateTimestamp"))
    return header, [expected_member(version, member) for member in value["members"]]


def expected_member(version: int, member: dict[str, Any]) -> dict[str, Any]:
    subscription = member.get("subscription") or {"rackId": None, "topics": None, "userData": None}
    topics, assigned = subscription["topics"], member.get("assignment", {}).get("assignedPartitions", [])
    pairs = sorted((each["topic"], partition) for each in assigned for partition in each["partitions"])
    return {
        "member_id": member["memberId"],
        "group_instance_id": member["groupInstanceId"],
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "rebalance_timeout_ms": member["rebalanceTimeout"],
        "session_timeout_ms": member["sessionTimeout"],
        "value_version": version,
        "rack_id": subscription["rackId"],
        "subscribed_topics": None if topics is None else sorted(set(topics)),
        "assigned_partitions": [
            {"topic": topic, "topic_id": None, "partition": partition, "assignment_epoch": None}
            for topic, partition in pairs
        ],
        "user_data": subscription["userData"],
    }


@pytest.mark.parametrize("seed", some_of(1, *range(8)))
@pytest.mark.parametrize("odd", [0, 0.02, 0.2])
def test_random_values(seed: int, odd: float) -> None:
    found = read(Snapshots(seed, odd=odd).records(80))
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]
    assert {version for version, _, _ in found} == {0, 1, 2, 3, 4}
    assert None in by_columns(found) or odd < 0.2


def value_of(**fields: Any) -> bytes:
    return snapshot([member(**fields)])


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize("field", ["memberId", "groupInstanceId", "clientId", "clientHost"])
def test_odd_texts(field: str, text: bytes) -> None:
    found = read([(KEY, value_of(**{field: text})), (KEY, value_of())])
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]


@pytest.mark.parametrize("blob", ODD_BLOBS)
@pytest.mark.parametrize("field", ["subscription", "assignment"])
def test_only_a_value_with_an_unreadable_blob_is_not_read_by_columns(field: str, blob: bytes) -> None:
    values = read([(KEY, value_of(**{field: blob})), (KEY, value_of())])
    assert by_columns(values) == [expected(version, value) for version, value, _ in values]
    assert any(one is None for one in by_columns(values)) == (f"{field}Raw" in values[0][2] and blob != b"")


def test_topics_are_unique_and_sorted_and_partitions_sorted() -> None:
    subscription = bytes.fromhex("0001 00000004 0001 62 0001 61 0002 6161 0001 62 00000002 0001 00000000")
    topics = bytes.fromhex(
        "00000003 0001 62 00000002 00000005 00000001 0001 61 00000000 0001 62 00000002 00000001 ffffffff"
    )
    assignment = bytes(2) + topics + b"\xff\xff\xff\xff"
    ((_, (member,)),) = by_columns(read([(KEY, value_of(subscription=subscription, assignment=assignment))]))
    assert member["subscribed_topics"] == ["a", "aa", "b"]
    assigned = [(each["topic"], each["partition"]) for each in member["assigned_partitions"]]
    assert assigned == [("b", -1), ("b", 1), ("b", 1), ("b", 5)]


def test_a_value_of_megabytes_among_small_ones() -> None:
    large = snapshot([member(memberId=b"m%d" % number, clientId=b"c" * 1000) for number in range(3000)])
    found = read([(KEY, value_of()), (KEY, large), (KEY, value_of())])
    assert len(found[1][2]) > 3 << 20
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]


def test_json_texts_of_consumer_groups_begin_with_their_prefix() -> None:
    texts = [text for _, _, text in read(Snapshots(0).records(50))]
    assert all(text.startswith(CONSUMER_GROUP) for text in texts)
