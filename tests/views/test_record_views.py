"""Views of one record type each: record_views.txt has their columns, and their rows over records of all types, versions
and layouts. `pytest --regen` writes it again, and a person reads the difference. Both dialects agree on all records."""

from __future__ import annotations

import json
import textwrap
import zipfile
from datetime import timedelta
from functools import cache
from pathlib import Path

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
from tests.messages.group_record_bytes import EARLY, SUBSCRIPTION, group_metadata, text
from tests.messages.vectors import KEY_OF_TYPE, records
from tests.recorded_logs import CORPORA
from tests.views.arrow_tables import comments, shape

# The view of each record type.
NAMES = {kind.number: name for name, kind in RECORD_VIEWS.items()}


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


@cache
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


@pytest.fixture(scope="module")
def table():
    return group_records([*handmade(), *recorded()])


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


def test_rows_of_every_record_type(by_duckdb, pytestconfig):
    """Records are made by hand, and Kafka's vectors: what is null is left out."""
    said, golden = "", Path(__file__).parent / "record_views.txt"
    for name in NAMES.values():
        rows = read(by_duckdb, name)
        said += f"# {name}: {', '.join(rows.column_names)}\n"
        for row in rows.slice(0, len([key for key, _ in handmade() if NAMES[key[1]] == name])).to_pylist():
            found = json.dumps(without_nulls(row), default=plain)
            said += textwrap.fill(found, 120, subsequent_indent="  ", break_long_words=False) + "\n"
    if pytestconfig.getoption("regen"):
        golden.write_text(said)
    assert said == golden.read_text()


def without_nulls(value):
    """The value without fields that are null, at every depth."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def plain(value):
    return value.hex() if isinstance(value, bytes) else str(value)


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
