"""JSON texts made by columns are those of the slow decoder; what is not plain is left to the reader of one record."""

from __future__ import annotations

import random

import numpy as np
import orjson
import pyarrow as pa
import pytest

from kgroups_spark.messages import coordinator_records
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, Undecodable
from kgroups_spark.messages.group_metadata import CONSUMER_GROUP, group_metadata_texts, snapshot_columns
from tests.chosen import some_of
from tests.messages.compared import changed, record_columns
from tests.messages.group_record_bytes import (
    ASSIGNMENT,
    COOPERATIVE,
    KEY,
    ODD_BLOBS,
    ODD_TEXTS,
    SUBSCRIPTION,
    Snapshots,
    group_metadata,
    member,
    members,
    snapshot,
)
from tests.messages.vectors import ALL, records
from tests.slow_messages import slow_group_metadata


def texts(values):
    data = np.frombuffer(b"".join(values) + bytes(32), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    return group_metadata_texts(data, np.cumsum(lengths) - lengths, lengths).to_pylist()


def by_the_slow_decoder(values):
    """The texts of the slow decoder's values; None: not decodable."""
    found = [slow_group_metadata(KEY, value) for value in values]
    return [orjson.dumps(one["value"]).decode() if one["outcome"] == "ok" else None for one in found]


PLAIN = {v["name"]: bytes.fromhex(v["hex"]) for v in ALL if v["kind"] == "value" and v["type"] == 2}
PLAIN = {name: value for name, value in PLAIN.items() if value[1] < 4 and b"consumer" in value}
PLAIN |= {
    "cooperative": group_metadata("consumer", COOPERATIVE, ASSIGNMENT),
    "no assignment": group_metadata("consumer", SUBSCRIPTION, b""),
    "nothing at all": group_metadata("consumer", b"", b""),
    "no members": members(0),
    "30 members": members(30),
    "few records of many members": members(200),
}
NOT_PLAIN = {
    "another protocol": group_metadata("connect", b"", b""),
    "version 4": next(bytes.fromhex(v["hex"]) for v in ALL if v["name"] == "group value v4"),
    "no protocol type": group_metadata("", b"", b""),
    "a longer protocol type": group_metadata("consumers", b"", b""),
    "blob that cannot be read": group_metadata("consumer", SUBSCRIPTION[:-1], b""),
    "blob with bytes left over": group_metadata("consumer", SUBSCRIPTION + b"!", b""),
    "blob of a newer version": group_metadata("consumer", b"\0\4" + COOPERATIVE[2:], b""),
    "blob of a negative version": group_metadata("consumer", b"\xff\xff" + COOPERATIVE[2:], b""),
    "blob of one byte": group_metadata("consumer", b"\0", b""),
    "bytes left over": members(2) + b"!",
    "a quote": members(2).replace(b"/h", b'"h'),
    "a backslash": members(2).replace(b"/h", b"\\h"),
    "a control character": members(2).replace(b"/h", b"/\n"),
    "another script": members(2).replace(b"/h", "é".encode()),
    "cut": members(3)[:-1],
    "far too many members": members(3).replace(b"\0\0\0\3\0\2m0", b"\x7f\xff\xff\xff\0\2m0"),
    "a null length of -2": members(1).replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\xfe", 1),
}


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN.keys())
def test_plain_values(value):
    assert texts([value]) == by_the_slow_decoder([value])
    assert texts([value]) != [None]


@pytest.mark.parametrize("value", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_other_values_are_left_to_the_record_by_record_reader(value):
    assert texts([value]) == [None]


def test_plain_values_among_others():
    plain, others = list(PLAIN.values()), list(NOT_PLAIN.values())
    mixed = [one for pair in zip(plain * 3, others * 3, strict=False) for one in pair]
    expected = by_the_slow_decoder(plain)
    assert texts(mixed)[::2] == (expected * 3)[: len(mixed[::2])]
    assert set(texts(mixed)[1::2]) == {None}


def test_many_records_of_many_members_are_plain():
    values = [members(40 + i) for i in range(10)]
    assert texts(values) == by_the_slow_decoder(values) and None not in texts(values)


@pytest.mark.parametrize("seed", some_of(2, *range(6)))
def test_changed_values_give_the_same_text_or_none(seed):
    chance = random.Random(seed)
    values = [changed(chance, value) for value in [*PLAIN.values(), *NOT_PLAIN.values()] for _ in range(8)]
    made, expected = texts(values), by_the_slow_decoder(values)
    assert [one for one in made if one is not None]
    assert [one for one, other in zip(made, expected, strict=True) if one is not None and one != other] == []


@pytest.mark.parametrize("few_bytes", [0, 1 << 20])
def test_rows_of_a_chunk_decode_as_each_would_alone(few_bytes, monkeypatch):
    monkeypatch.setattr(coordinator_records, "FEW_BYTES", few_bytes)
    pairs = [(k, v) for k, v in records() if k[1] >= 2]
    pairs += [(KEY, value) for value in [*PLAIN.values(), *NOT_PLAIN.values(), None, b"", b"\0"]]
    pairs += [(None, b""), (b"", b""), (b"\0\2", PLAIN["cooperative"]), (b"\0\2\0\1\xff", PLAIN["cooperative"])]
    chunk = record_columns(pairs)
    rows = np.arange(len(pairs))[::-1]
    found, expected = GroupRecordDecoder().decode_rows(chunk, rows), GroupRecordDecoder()
    assert len(found) == len(pairs)
    for one, row in zip(found, rows, strict=True):
        other = expected.decode(*pairs[row])
        if isinstance(other, Undecodable):
            assert one == other
        else:
            names = ("group_id", "member_id", "value_version", "layout", "keeps_raw", "value")
            assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
            assert one.value_json() == other.value_json()


# Columns of GroupMetadata values agree with their JSON texts, but for blobs that no client could read.


def read(records):
    """Version, value and text of those of consumer groups, without escapes, by the reader of single records."""
    decoded = map(GroupRecordDecoder().decode, *zip(*records, strict=True))
    found = ((each.value_version, each.value, each.value_json()) for each in decoded if each.content is not None)
    return [each for each in found if each[1]["protocolType"] == "consumer" and "\\" not in each[2]]


def by_columns(found):
    """(header fields, members) of each value; None: a blob in it cannot be read."""
    versions, _, texts = zip(*found, strict=True)
    within = pa.array(texts * 3).slice(len(texts), len(texts))
    columns = snapshot_columns(within, pa.array(versions, pa.int16()))
    headers = (tuple(value.values()) for value in columns.values.to_pylist())
    members = columns.members.to_pylist()
    places = zip(columns.first_member.tolist(), columns.member_count.tolist(), strict=True)
    rows = [(header, members[start : start + n]) for header, (start, n) in zip(headers, places, strict=True)]
    return [row if is_readable else None for row, is_readable in zip(rows, columns.is_readable, strict=True)]


def expected(version, value):
    if any(member.get("subscriptionRaw") or member.get("assignmentRaw") for member in value["members"]):
        return None
    header = tuple(value[name] for name in ("generation", "protocol", "leader", "currentStateTimestamp"))
    return header, [expected_member(version, member) for member in value["members"]]


def expected_member(version, member):
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
@pytest.mark.parametrize("odd", [0, 0.02, 0.05])
def test_random_values(seed, odd):
    found = read(Snapshots(seed, odd=odd).records(300))
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]
    assert {version for version, _, _ in found} == {0, 1, 2, 3, 4}
    assert None in by_columns(found) or odd < 0.05


def value_of(**fields):
    return snapshot([member(**fields)])


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize("field", ["memberId", "groupInstanceId", "clientId", "clientHost"])
def test_odd_texts(field, text):
    found = read([(KEY, value_of(**{field: text})), (KEY, value_of())])
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]


@pytest.mark.parametrize("blob", ODD_BLOBS)
@pytest.mark.parametrize("field", ["subscription", "assignment"])
def test_only_a_value_with_an_unreadable_blob_is_not_read_by_columns(field, blob):
    values = read([(KEY, value_of(**{field: blob})), (KEY, value_of())])
    assert by_columns(values) == [expected(version, value) for version, value, _ in values]
    assert any(one is None for one in by_columns(values)) == (f"{field}Raw" in values[0][2] and blob != b"")


def test_topics_are_unique_and_sorted_and_partitions_sorted():
    subscription = bytes.fromhex("0001 00000004 0001 62 0001 61 0002 6161 0001 62 00000002 0001 00000000")
    topics = bytes.fromhex(
        "00000003 0001 62 00000002 00000005 00000001 0001 61 00000000 0001 62 00000002 00000001 ffffffff"
    )
    assignment = bytes(2) + topics + b"\xff\xff\xff\xff"
    ((_, (member,)),) = by_columns(read([(KEY, value_of(subscription=subscription, assignment=assignment))]))
    assert member["subscribed_topics"] == ["a", "aa", "b"]
    assigned = [(each["topic"], each["partition"]) for each in member["assigned_partitions"]]
    assert assigned == [("b", -1), ("b", 1), ("b", 1), ("b", 5)]
    twice = bytes.fromhex("0000 00000002 0001 61 0001 61 00000000")
    ((_, (member,)),) = by_columns(read([(KEY, value_of(subscription=twice))]))
    assert member["subscribed_topics"] == ["a"]


def test_a_value_of_megabytes_among_small_ones():
    large = snapshot([member(memberId=b"m%d" % number, clientId=b"c" * 1000) for number in range(3000)])
    found = read([(KEY, value_of()), (KEY, large), (KEY, value_of())])
    assert len(found[1][2]) > 3 << 20
    assert by_columns(found) == [expected(version, value) for version, value, _ in found]


def test_json_texts_of_consumer_groups_begin_with_their_prefix():
    texts = [text for _, _, text in read(Snapshots(0).records(50))]
    assert all(text.startswith(CONSUMER_GROUP) for text in texts)
