"""Views of one record type each: every row and every field of group_records, in both dialects."""

from __future__ import annotations

import base64
import json
import random
import re
import zipfile
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import pytest

from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder, RecordType
from kgroups_spark.messages.schema import parse_definition
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sql.views import RECORD_VIEWS, value_fields, view_sql
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import some_of
from tests.lake.table_rows import MOMENT, rows_of
from tests.messages.compared import changed, group_record
from tests.messages.group_record_bytes import EARLY, SUBSCRIPTION, group_metadata, text
from tests.messages.vectors import KEY_OF_TYPE, records
from tests.recorded_logs import CORPORA
from tests.views.arrow_tables import comments, shape

# Records of types 2 to 23 and the rows that the views of their types should have.
#
# This module makes columns of Kafka's JSON once more, without the code of the views.


Pair = tuple[bytes, bytes | None]
Row = dict[str, Any]

# The view of each record type.
NAMES = {kind.number: name for name, kind in RECORD_VIEWS.items()}

# The first version of each field that older versions lack (semantics, sections 2.3 and 2.8).
SINCE = {"current_state_timestamp": 2, "group_instance_id": 3, "rebalance_timeout": 1}
SINCE_IN_BLOBS = {
    "subscription": {"owned_partitions": 1, "generation_id": 2, "rack_id": 3},
    "metadata": {"owned_partitions": 1, "generation_id": 2, "rack_id": 3},
    "connect_subscription": {"allocation": 1},
    "connect_assignment": {"revoked": 1, "delay": 1},
}
TIMES = {"current_state_timestamp", "assignment_timestamp", "timestamp"}
BYTES = {"metadata_bytes", "user_data", "allocation", "subscription_raw", "assignment_raw", "metadata_raw"}
# Fields that only one of two layouts has (T58); all other columns of a row of the other one are null.
LACKS = {
    4: {"released": {"epoch"}},
    5: {"released": {"assignors"}, "3.7": {"classic_member_metadata"}},
    7: {"released": {"error", "metadata_version", "metadata_bytes"}},
    8: {
        "released": {
            "target_member_epoch",
            "partitions_pending_assignment",
            "error",
            "metadata_version",
            "metadata_bytes",
        },
        "3.7": {"state"},
    },
    11: {"released": set(), "4.0": {"metadata_hash"}},
    15: {"released": set(), "4.0": {"initializing_topics"}},
}


@cache
def recorded():
    """Keys and values of all corpora's records of these types."""
    pairs = []
    with zipfile.ZipFile(CORPORA) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("logs/") and name.endswith(".log"):
                with archive.open(name) as file:
                    pairs += _of_groups(chunk for chunk in read_segment(file) if isinstance(chunk, RecordColumns))
    return tuple(pairs)


def _of_groups(chunks):
    found = []
    for chunk in chunks:
        for row in range(len(chunk)):
            key = chunk.key(row)
            if key is not None and key[1] >= 2 and not chunk.batches.is_control[chunk.batch[row]]:
                found.append((key, chunk.value(row)))
    return found


def handmade():
    """Records that no corpus has: all types and versions, early-access layouts, odd blobs, extreme numbers."""
    pairs = [(key, value) for key, value in records() if key[1] >= 2]
    pairs += [(key, None) for number, key in KEY_OF_TYPE.items() if number >= 2]
    pairs += [(KEY_OF_TYPE[number], value) for number, _, value, _ in EARLY]
    early_9 = b"\0\0\2" + bytes(range(16)) + b"\2t" + bytes.fromhex("00000002 02 00000000 02 0272 00 00") + b"\0"
    pairs += [(b"\0\x09\0\2sg", early_9), (b"\0\x09\0\2sg", None)]
    blobs = [SUBSCRIPTION, b"", b"\0", b"\xff\xff" + SUBSCRIPTION[2:]]
    blobs.append(bytes.fromhex("0009 00000001 0001 61 ffffffff 00000000 00000007 ffff") + b"new")
    blobs.append(bytes.fromhex("0001 00000000 ffffffff 00000001 0001 74 00000001 7fffffff"))
    connect = b"\0\1" + text("http://w") + b"\x7f" + b"\xff" * 7 + b"\0\0\0\2xy"
    to_connect = b"\0\1\0\1" + text("w") + text("u") + bytes(8) + b"\0\0\0\0" + b"\xff" * 4 + b"\0\0\0\5"
    to_connect_0 = b"\0\0\0\1" + text("w") + text("u") + bytes(8) + bytes(4)
    values = [group_metadata(kind, blob, blob) for kind in ("consumer", "connect", "", "sr") for blob in blobs]
    values += [group_metadata("connect", connect, blob) for blob in (to_connect, to_connect_0)]
    values.append(group_metadata('a"\\\n\0\u2028😀\x7f', b"", b""))
    pairs += [(KEY_OF_TYPE[2], value) for value in values]
    for time in (-(1 << 63), -1, 0, 1, 253_402_300_799_999, 253_402_300_800_000, (1 << 63) - 1):
        tag = b"\1\0\x08" + time.to_bytes(8, "big", signed=True)
        pairs.append((KEY_OF_TYPE[6], b"\0\0" + (1 << 31).to_bytes(4, "big") + tag))
        pairs.append((KEY_OF_TYPE[11], b"\0\0" + bytes(4) + time.to_bytes(8, "big", signed=True) + b"\0"))
    chance = random.Random(6)
    for key, value in (pair for _ in range(12) for pair in records()):
        other = changed(chance, value)
        if key[1] >= 2 and group_record(GroupRecordDecoder(), key, other)["outcome"] == "ok":
            pairs.append((key, other))
    return pairs


def group_records(pairs):
    """The table: record n is at log offset n of partition 7."""
    decoder, rows = GroupRecordDecoder(), []
    for number, (key, value) in enumerate(pairs):
        record = decoder.decode(key, value)
        assert isinstance(record, CoordinatorRecord), (key, value)
        names = ("record_type", "record_name", "group_id", "member_id", "regular_expression", "value_version")
        rows.append({name: getattr(record, name) for name in names} | {"value": record.value_json()} | place(number))
    return rows_of("group_records", *rows)


def place(number):
    """The columns that all types share. Some records have a producer, and some have no time."""
    return {
        "audit_id": 1 + number % 2,
        "offsets_partition": 7,
        "log_offset": number,
        "log_timestamp": MOMENT + timedelta(milliseconds=number) if number % 3 else None,
        "producer_id": number if number % 5 == 0 else None,
        "is_transactional": number % 5 == 0,
    }


def expected(pairs):
    """The rows of every view; of tombstones, and of another layout's fields, what is null is left out."""
    rows = {name: [] for name in NAMES.values()}
    for number, (key, value) in enumerate(pairs):
        found = group_record(GroupRecordDecoder(), key, value)
        assert found["outcome"] in ("ok", "tombstone")
        keys = ("group_id", "member_id", "regular_expression")
        row = place(number) | {name: found[name] for name in keys if name in found}
        row |= {"value_version": found.get("version"), "is_tombstone": value is None}
        if value is not None:
            row |= _value(found)
        rows[NAMES[found["record_type"]]].append(row)
    return rows


def _value(found):
    number, version, layout = found["record_type"], found["version"], found["layout"].lstrip("?")
    if layout[:1] in ("", "?") and number != 9:
        layout = "released"
    lacks = LACKS.get(number, {})
    protocol = found["value"].get("protocolType", "consumer")
    row = {name: _column(name, value, version, protocol) for name, value in _snake(found["value"]).items()}
    # "?3.7": both layouts fit, the released one was read, which is all that the row can say.
    layout = "released" if found["layout"].startswith("?") else layout
    row = {name: None if name in lacks.get(layout, ()) else value for name, value in row.items()}
    return row | ({"layout": layout} if lacks else {})


def _snake(fields):
    return {re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name): value for name, value in fields.items()}


def _column(name, value, version, protocol):
    if version < SINCE.get(name, 0) or value is None:
        return None
    if name in TIMES:
        in_years_that_are_reported = 0 < value <= 253_402_300_799_999
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value) if in_years_that_are_reported else None
    if name in BYTES or (name == "metadata" and isinstance(value, str)):
        return base64.b64decode(value)
    if isinstance(value, list):
        return [_column("", one, version, protocol) for one in value]
    return _struct(value, version, protocol) if isinstance(value, dict) else value


def _struct(value, version, protocol):
    struct = {}
    for name, one in _snake(value).items():
        if isinstance(one, dict) and "version" in one:
            named = name if protocol == "consumer" else f"{protocol}_{name}"
            since = SINCE_IN_BLOBS.get(named, {})
            struct[named] = {
                field: None if one["version"] < since.get(field, 0) else _column(field, each, version, protocol)
                for field, each in _snake(one).items()
            }
        else:
            struct[name] = _column(name, one, version, protocol)
    return struct


def without_nulls(value):
    """The value without fields that are null, at every depth."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


COMMON = {
    *("audit_id", "offsets_partition", "log_offset", "log_timestamp", "group_id", "value_version", "is_tombstone"),
    *("producer_id", "is_transactional"),
}


@pytest.fixture(scope="module")
def pairs():
    return [*recorded(), *handmade()]


@pytest.fixture(scope="module")
def expected_rows(pairs):
    return expected(pairs)


@pytest.fixture(scope="module")
def table(pairs):
    return group_records(pairs)


@pytest.fixture(scope="module")
def by_duckdb(table):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("group_records", table)
    for name in RECORD_VIEWS:
        connection.execute(view_sql(name, "duckdb"))
    return connection


@pytest.fixture(scope="module")
def by_spark(spark, table):
    frame = spark.createDataFrame(table.combine_chunks(), TABLES["group_records"].schema)
    frame.createOrReplaceTempView("group_records")
    for name in RECORD_VIEWS:
        spark.sql(view_sql(name, "spark"))
    return spark


def read(connection, name):
    return connection.sql(f"SELECT * FROM {name} ORDER BY log_offset").to_arrow_table()


def test_every_record_type_has_a_view():
    # Type 9 was only in early-access releases.
    assert set(NAMES) == {9, *(number for number in KEY_OF_TYPE if number >= 2)}


@pytest.mark.parametrize("name", NAMES.values())
def test_every_row_and_field_equals_the_slow_decoders(by_duckdb, expected_rows, name):
    rows, its = read(by_duckdb, name), expected_rows[name]
    assert its and any(row["is_tombstone"] for row in its)
    assert [without_nulls(row) for row in rows.to_pylist()] == [without_nulls(row) for row in its]
    assert set(rows.column_names) == COMMON.union(*its)


@pytest.mark.parametrize("name", some_of(4, *NAMES.values()))
def test_both_dialects_agree(by_duckdb, by_spark, name):
    one, other = read(by_duckdb, name), by_spark.table(name).orderBy("log_offset").toArrow()
    assert one.column_names == other.column_names
    # Names and types at every depth: a field that one of them lacks, or has as another type, cannot be cast.
    assert one.cast(other.schema).to_pylist() == other.to_pylist()
    assert shape(one.schema) == shape(other.schema)
    commented = {field.name: field.metadata["comment"] for field in by_spark.table(name).schema}
    assert comments(name) == commented
    assert all(commented.values())


def test_a_field_with_two_types_in_two_layouts_is_refused():
    layout = {"name": "XValue", "type": "coordinator-value", "validVersions": "0", "flexibleVersions": "0+"}
    one, other = (
        parse_definition(
            json.dumps(layout | {"layout": name, "fields": [{"name": "Epoch", "type": of, "versions": "0+"}]})
        )
        for name, of in (("", "int32"), ("3.7", "[]int32"))
    )
    kind = RecordType(99, "X", one, (one, other))
    with pytest.raises(ValueError, match="epoch"):
        value_fields(kind)
