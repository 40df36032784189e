"""A few bytes of a compressed batch may claim a million structs: a value with more fields than a coordinator can write
is not read."""

from __future__ import annotations

import struct

import numpy as np
import orjson
import pytest

from kgroups_spark.messages.coordinator_records import (
    GROUP_LOG,
    SHARE_LOG,
    CoordinatorRecord,
    CoordinatorRecordDecoder,
    GroupRecordDecoder,
    Undecodable,
)
from kgroups_spark.messages.group_metadata import SPARE, group_metadata_texts
from kgroups_spark.messages.schema import MOST_FIELDS
from tests.findings.record_bytes import record, uvarint

TOPOLOGY_KEY = struct.pack(">h", 23) + b"\0\1g"
SHARE_KEY = struct.pack(">h", 0) + b"\0\1g" + bytes(15) + b"\1" + struct.pack(">i", 0)
SUBTOPOLOGY, SUBTOPOLOGY_FIELDS = b"\1\1\1\1\1\1\1\0", 7
BATCH, BATCH_FIELDS = bytes(20), 4
SUBSCRIPTION = struct.pack(">hi", 0, 0) + b"\xff\xff\xff\xff"
WARNING = "lists of more than 1,048,588 fields"


def topology(count: int) -> bytes:
    return struct.pack(">hi", 0, 1) + uvarint(count + 1) + SUBTOPOLOGY * count + b"\0"


def share_snapshot(count: int) -> bytes:
    return struct.pack(">hiiiqqq", 0, 0, 0, 0, 0, 0, 0) + uvarint(count + 1) + BATCH * count + b"\0"


@pytest.mark.parametrize(
    ("log", "key", "value", "most"),
    [
        (GROUP_LOG, TOPOLOGY_KEY, topology, MOST_FIELDS // SUBTOPOLOGY_FIELDS),
        (SHARE_LOG, SHARE_KEY, share_snapshot, MOST_FIELDS // BATCH_FIELDS),
    ],
    ids=["topology", "share snapshot"],
)
def test_a_value_with_more_fields_than_a_coordinator_writes_is_not_read(log, key, value, most):
    decoder = CoordinatorRecordDecoder(log)
    assert len(value(most)) > MOST_FIELDS  # more than message.max.bytes
    assert isinstance(decoder.decode(key, value(most)), CoordinatorRecord)
    found = decoder.decode(key, value(most + 1))
    assert isinstance(found, Undecodable)
    assert found.reason == "truncated" and WARNING in found.detail


def group_metadata(assignment: bytes, client: bytes = b"c") -> bytes:
    """A classic group of one member."""
    member = {"memberId": "m", "groupInstanceId": None, "clientId": client, "clientHost": "h"}
    member |= {"rebalanceTimeout": 1, "sessionTimeout": 1, "subscription": SUBSCRIPTION, "assignment": assignment}
    value = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": [member]}
    return record(2, {"group": "g"}, value | {"currentStateTimestamp": 0}, 3)[1] or b""


def assignment(topics: int, partitions: int = 0) -> bytes:
    one = b"\0\0" + struct.pack(">i", partitions) + struct.pack(">i", 0x7FFFFFFF) * partitions
    return struct.pack(">hi", 0, topics) + one * topics + b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("blob", "is_parsed"),
    [
        (assignment(1000), True),
        (assignment(MOST_FIELDS // 2), True),
        (assignment(MOST_FIELDS // 2 + 1), False),
        (assignment(1, MOST_FIELDS - 2), True),
        (assignment(1, MOST_FIELDS - 1), False),
    ],
    ids=["few", "most topics", "more topics", "most partitions", "more partitions"],
)
def test_a_protocol_blob_with_more_fields_is_kept_as_its_bytes(blob, is_parsed):
    found = GroupRecordDecoder().decode(b"\0\2\0\1g", group_metadata(blob))
    assert isinstance(found, CoordinatorRecord)
    [member] = orjson.loads(found.value_json() or "")["members"]
    assert ("assignment" in member, "assignmentRaw" in member) == (is_parsed, not is_parsed)


@pytest.mark.parametrize(("spare", "is_plain"), [(0, True), (1, False)])
def test_larger_values_are_not_read_as_columns(spare: int, is_plain: bool) -> None:
    rest = MOST_FIELDS + spare - len(group_metadata(assignment(1), b""))
    value = group_metadata(assignment(1, rest // 4), b"c" * (rest % 4))
    assert len(value) == MOST_FIELDS + spare
    data = np.frombuffer(value + bytes(SPARE), np.uint8)
    [made] = group_metadata_texts(data, np.zeros(1, np.int64), np.array([len(value)])).to_pylist()
    assert (made is not None) == is_plain
