"""Columns of GroupMetadata values say what the record-by-record reader says; what is not plain is left to that."""

from __future__ import annotations

import base64
import random

import numpy as np
import pytest

from kgroups_spark.messages.group_metadata_columns import group_metadata_columns
from kgroups_spark.messages.group_records import GroupRecordDecoder, Undecodable
from tests.messages.test_group_records import group_metadata
from tests.messages.test_json_columns import KEY, NOT_PLAIN, PLAIN, texts
from tests.messages.test_offset_commits import changed


def columns(values):
    data = np.frombuffer(b"".join(values) + bytes(32), np.uint8)
    lengths = np.array([len(value) for value in values], np.int64)
    return group_metadata_columns(data, np.cumsum(lengths) - lengths, lengths)


def by_columns(values):
    """(version, header fields, members) of each value; None: not plain."""
    read = columns(values)
    members = read.members.to_pylist()
    return [
        (
            read.value_version[i],
            (read.generation[i], read.protocol[i].as_py(), read.leader[i].as_py(), read.current_state_timestamp[i]),
            [plain(member) for member in members[read.first_member[i] :][: read.member_count[i]]],
        )
        if read.is_plain[i]
        else None
        for i in range(len(values))
    ]


def plain(member):
    del member["member"], member["value_version"]
    partitions = [(each["topic"], each["partition"]) for each in member.pop("assigned_partitions")]
    return (*member.values(), partitions)


def one_by_one(value):
    record = GroupRecordDecoder().decode(KEY, value)
    if isinstance(record, Undecodable):
        return None
    header = tuple(record.value[name] for name in ("generation", "protocol", "leader", "currentStateTimestamp"))
    return record.value_version, header, [read_member(member) for member in record.value["members"]]


def read_member(member):
    subscription = member.get("subscription") or {"rackId": None, "topics": None, "userData": None}
    topics, user_data = subscription["topics"], subscription["userData"]
    assigned = member["assignment"]["assignedPartitions"] if "assignment" in member else []
    names = ("memberId", "groupInstanceId", "clientId", "clientHost", "rebalanceTimeout", "sessionTimeout")
    return (
        *(member[name] for name in names),
        subscription["rackId"],
        None if topics is None else sorted(set(topics)),
        None if user_data is None else base64.b64decode(user_data),
        sorted((each["topic"], partition) for each in assigned for partition in each["partitions"]),
    )


UNSORTED = group_metadata(
    "consumer",
    bytes.fromhex("0001 00000004 0001 62 0001 61 0002 6161 0001 62 00000002 0001 00000000"),
    bytes.fromhex("0000 00000003 0001 62 00000002 00000005 00000001 0001 61 00000000 0001 62 00000001 00000001")
    + b"\xff\xff\xff\xff",
)


@pytest.mark.parametrize("value", [*PLAIN.values(), UNSORTED], ids=[*PLAIN.keys(), "unsorted"])
def test_plain_values(value):
    assert by_columns([value]) == [one_by_one(value)]
    assert one_by_one(value) is not None


def test_topics_come_once_and_sorted_and_partitions_sorted():
    (member,) = by_columns([UNSORTED])[0][2]
    assert member[7:] == (["a", "aa", "b"], b"\0\1", [("b", 1), ("b", 1), ("b", 5)])


@pytest.mark.parametrize("value", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
def test_other_values_are_left_to_the_record_by_record_reader(value):
    assert by_columns([value]) == [None]


def test_nothing():
    assert by_columns([]) == []
    assert columns([b"", b"\0"]).members.num_rows == 0


@pytest.mark.parametrize("seed", range(6))
def test_changed_values_say_the_same_or_are_left(seed):
    """What is plain here is what has a text in json_columns.py."""
    chance = random.Random(seed)
    values = [changed(chance, value) for value in [*PLAIN.values(), *NOT_PLAIN.values(), UNSORTED] for _ in range(20)]
    made = by_columns(values)
    assert [one is None for one in made] == [text is None for text in texts(values)]
    assert sum(one is not None for one in made) > 5
    for value, one in zip(values, made, strict=True):
        assert one is None or one == one_by_one(value)


def test_members_have_the_same_bytes_where_they_are_the_same():
    read = columns([PLAIN["30 members"], PLAIN["cooperative"], PLAIN["30 members"]])
    prints = read.members.column("member").to_pylist()
    assert prints[:30] == prints[31:]
    assert len(set(prints)) == 31
