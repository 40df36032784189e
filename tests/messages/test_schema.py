"""Readers refuse what Kafka's generated readers refuse, and let pass what these let pass."""

from __future__ import annotations

import json
import struct

import numpy as np
import orjson
import pytest

from kgroups_spark.messages.coordinator_records import (
    CONSUMER_OFFSETS,
    GROUP_LOG,
    SHARE_GROUP_STATE,
    SHARE_LOG,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorRecordDecoder,
    GroupRecordDecoder,
    Undecodable,
)
from kgroups_spark.messages.group_metadata import SPARE, group_metadata_texts
from kgroups_spark.messages.schema import (
    MOST_FIELDS,
    MessageReader,
    Truncated,
    all_definitions,
    decode_text,
    definition,
    parse_definition,
    parse_versions,
    read_uvarint,
)
from tests.findings.record_bytes import record, uvarint


def read(fields, data, flexible="0+", structs=()):
    """One message of these fields: its values and notes."""
    message = {"type": "data", "name": "Sample", "validVersions": "0", "flexibleVersions": flexible}
    message |= {"fields": fields, "commonStructs": list(structs)}
    notes = []
    values, end = MessageReader(parse_definition(json.dumps(message)), 0).read(bytes.fromhex(data), 0, notes)
    return values, len(bytes.fromhex(data)) - end, notes


def field(kind, **more):
    return {"name": "Field", "type": kind, "versions": "0+"} | more


NULLABLE = {"nullableVersions": "0+"}

GOOD = [
    ("text", field("string"), "none", "0002c3a9", "é", []),
    ("text, null", field("string", **NULLABLE), "none", "ffff", None, []),
    ("text, null by another negative length", field("string", **NULLABLE), "none", "8000", None, []),
    ("bytes are base64", field("bytes"), "none", "00000002fbff", "+/8=", []),
    ("array, null", field("[]int32", **NULLABLE), "none", "ffffffff", None, []),
    ("compact text", field("string"), "0+", "03c3a900", "é", []),
    ("compact text, null", field("string", **NULLABLE), "0+", "0000", None, []),
    ("compact length in more bytes than needed", field("string"), "0+", "838000616200", "ab", []),
    ("uuid as Kafka prints it", field("uuid"), "0+", "fb" * 16 + "00", "-_v7-_v7-_v7-_v7-_v7-w", []),
    ("uint16", field("uint16"), "none", "ffff", 65535, []),
    ("int8", field("int8"), "none", "ff", -1, []),
    ("tag", field("int32", tag=0, taggedVersions="0+"), "0+", "01000400000007", 7, []),
    ("tag, absent", field("int32", tag=0, taggedVersions="0+", default=-1), "0+", "00", -1, []),
    ("tag with a wrong size", field("int32", tag=0, taggedVersions="0+"), "0+", "01000900000007", 7, ["odd tags"]),
    ("tag twice", field("int8", tag=0, taggedVersions="0+"), "0+", "02000107000108", 8, ["odd tags"]),
    ("unknown tag", field("int8"), "0+", "070105026162", 7, ["unknown tag"]),
    ("improper UTF-8", field("string"), "none", "0001ff", "\ufffd", ["text that is not UTF-8"]),
    ("negative number of tags", field("int8"), "0+", "07ffffffff0f", 7, []),
]

BAD = [
    ("text without its length", field("string"), "none", "00", "the bytes end too early"),
    ("text that is too short", field("string"), "none", "000361", "the bytes end too early"),
    ("null text", field("string"), "none", "ffff", "null, or a negative length"),
    ("null array", field("[]int32"), "none", "ffffffff", "null, or a negative length"),
    ("null bytes", field("bytes"), "none", "80000000", "null, or a negative length"),
    ("more elements than bytes", field("[]int32"), "none", "7fffffff00000000", "lists of more than"),
    ("elements cut", field("[]int32"), "none", "0000000200000000", "the bytes end too early"),
    ("compact null", field("string"), "0+", "0000", "null, or a negative length"),
    ("compact text above Java's limit", field("string"), "0+", "818002" + "61" * 32768 + "00", "above 32767 bytes"),
    ("varint of six bytes", field("string"), "0+", "808080808001", "longer than 5 bytes"),
    (
        "length that wraps to the greatest int",
        field("string", **NULLABLE),
        "0+",
        "808080800800",
        "above 32767 bytes",
    ),
    ("tags missing", field("int8"), "0+", "07", "the bytes end too early"),
    ("tag beyond the bytes", field("int8"), "0+", "0701050361", "a tag beyond the bytes"),
    ("tag of negative size", field("int8"), "0+", "070105ffffffff0f", "a tag beyond the bytes"),
]


@pytest.mark.parametrize(
    ("field", "flexible", "data", "value", "notes"), [g[1:] for g in GOOD], ids=[g[0] for g in GOOD]
)
def test_reads(field, flexible, data, value, notes):
    assert read([field], data, flexible) == ({"field": value}, 0, notes)


@pytest.mark.parametrize(("field", "flexible", "data", "why"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_refuses(field, flexible, data, why):
    with pytest.raises(Truncated, match=f"Sample version 0 cannot be read: .*{why}"):
        read([field], data, flexible)


def test_bytes_after_a_message_are_left_unread():
    assert read([field("int8")], "0701", "none") == ({"field": 7}, 1, [])


STRUCT = {"name": "Pair", "versions": "0+", "fields": [field("int8", name="A"), field("string", name="B")]}


def test_a_struct_that_may_be_null_is_led_by_a_byte():
    nullable = field("Pair", default="null", **NULLABLE)
    assert read([nullable], "01070261" + "00" + "00", structs=[STRUCT])[0] == {"field": {"a": 7, "b": "a"}}
    assert read([nullable], "ff00", structs=[STRUCT])[0] == {"field": None}
    assert read([nullable], "8000", structs=[STRUCT])[0] == {"field": None}


def test_a_struct_in_a_tag_is_led_by_a_uvarint_that_counts_into_the_size():
    tagged = field("Pair", tag=0, taggedVersions="0+", default="null", **NULLABLE)
    assert read([tagged], "010005" + "0107026100", structs=[STRUCT]) == ({"field": {"a": 7, "b": "a"}}, 0, [])
    assert read([tagged], "010001" + "00", structs=[STRUCT]) == ({"field": None}, 0, [])


@pytest.mark.parametrize(
    ("data", "value"),
    [("00", 0), ("7f", 127), ("8001", 128), ("ffffffff07", 2**31 - 1), ("8080808008", -(2**31)), ("ffffffff7f", -1)],
)
def test_uvarints_are_javas_ints(data, value):
    assert read_uvarint(bytes.fromhex(data), 0) == (value, len(data) // 2)


def test_versions():
    assert list(parse_versions("2")) == [2]
    assert list(parse_versions("0-4")) == [0, 1, 2, 3, 4]
    assert list(parse_versions("none")) == [] and 9 in parse_versions("3+") and 2 not in parse_versions("3+")


def test_an_unsupported_field_type_is_an_error_not_an_empty_struct():
    with pytest.raises(ValueError, match="float64"):
        read([field("float64")], "00")


def test_every_version_of_every_definition_compiles():
    compiled = [MessageReader(message, version) for message in all_definitions() for version in message.versions]
    assert len(compiled) == 97


def test_record_types_are_those_of_the_releases():
    assert sorted(CONSUMER_OFFSETS) == [n for n in range(24) if n != 18]
    assert {n: t.name for n, t in SHARE_GROUP_STATE.items()} == {0: "ShareSnapshot", 1: "ShareUpdate"}
    assert {n: t.name for n, t in TRANSACTION_STATE.items()} == {0: "TransactionLog"}
    early = {n: [layout.layout for layout in t.layouts] for n, t in CONSUMER_OFFSETS.items()}
    early = {n: names for n, names in early.items() if names != [""]}
    assert early == {
        4: ["", "3.7"],
        5: ["", "3.7"],
        7: ["", "3.7"],
        8: ["", "3.7"],
        9: ["4.0"],
        11: ["", "4.0"],
        15: ["", "4.0"],
    }


def test_field_names_are_spelled_as_in_kafkas_json():
    assert definition("ConsumerGroupMetadataValue").fields[0].name == "epoch"


R = "\ufffd"
CASES = [
    ("41c3a9e282acf09f9880", "Aé€😀", True),
    ("", "", True),
    ("00", "\0", True),
    ("80", R, False),
    ("c0af", R + R, False),
    ("c341", R + "A", False),
    ("e282", R, False),
    ("e28241", R + "A", False),
    ("e080af", R + R + R, False),
    ("eda080", R, False),  # a surrogate in three bytes: one character, where Python makes three
    ("eda0bd", R, False),
    ("eda080edb080", R + R, False),  # CESU-8
    ("eda041", R + "A", False),
    ("eda0", R, False),
    ("ed9fbf", "\ud7ff", True),
    ("f0808080", R * 4, False),
    ("f09f98", R, False),
    ("f09f9841", R + "A", False),
    ("f4908080", R * 4, False),
    ("f5808080", R * 4, False),
    ("ff41", R + "A", False),
]


@pytest.mark.parametrize(("data", "text", "is_proper"), CASES, ids=[case[0] or "nothing" for case in CASES])
def test_text_is_what_java_sees(data, text, is_proper):
    assert decode_text(bytes.fromhex(data)) == (text, is_proper)


# A few bytes of a compressed batch may claim a million structs: a value with more fields than a coordinator can write
# is not read.
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
