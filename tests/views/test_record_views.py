"""Views of one record type each: every row and every field of group_records, in both dialects."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kgroups_spark.messages.coordinator_records import RecordType
from kgroups_spark.messages.schema import parse_definition
from kgroups_spark.spark.runner import frame_of
from kgroups_spark.sql.views import RECORD_VIEWS, value_fields, view_sql
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import some_of
from tests.views.arrow_tables import comments
from tests.views.record_cases import NAMES, Pair, Row, expected, group_records, handmade, recorded, without_nulls
from tests.views.shapes import shape

COMMON = {
    *("audit_id", "offsets_partition", "log_offset", "log_timestamp", "group_id", "value_version", "is_tombstone"),
    *("producer_id", "is_transactional"),
}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [*recorded(), *handmade()]


@pytest.fixture(scope="module")
def expected_rows(pairs: list[Pair]) -> dict[str, list[Row]]:
    return expected(pairs)


@pytest.fixture(scope="module")
def table(pairs: list[Pair]) -> pa.Table:
    return group_records(pairs)


@pytest.fixture(scope="module")
def by_duckdb(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("group_records", table)
    for name in RECORD_VIEWS:
        connection.execute(view_sql(name, "duckdb"))
    return connection


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession, table: pa.Table) -> SparkSession:
    frame_of(spark, table, TABLES["group_records"].schema).createOrReplaceTempView("group_records")
    for name in RECORD_VIEWS:
        spark.sql(view_sql(name, "spark"))
    return spark


def read(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    return connection.sql(f"SELECT * FROM {name} ORDER BY log_offset").to_arrow_table()


def test_every_record_type_has_a_view() -> None:
    assert {kind.number: name for name, kind in RECORD_VIEWS.items()} == NAMES


@pytest.mark.parametrize("name", NAMES.values())
def test_every_row_and_field_equals_the_slow_decoders(
    by_duckdb: duckdb.DuckDBPyConnection, expected_rows: dict[str, list[Row]], name: str
) -> None:
    rows, its = read(by_duckdb, name), expected_rows[name]
    assert its and any(row["is_tombstone"] for row in its)
    assert [without_nulls(row) for row in rows.to_pylist()] == [without_nulls(row) for row in its]
    assert set(rows.column_names) == COMMON.union(*its)


@pytest.mark.parametrize("name", some_of(4, *NAMES.values()))
def test_both_dialects_agree(by_duckdb: duckdb.DuckDBPyConnection, by_spark: SparkSession, name: str) -> None:
    one, other = read(by_duckdb, name), by_spark.table(name).orderBy("log_offset").toArrow()
    assert one.column_names == other.column_names
    # Names and types at every depth: a field that one of them lacks, or has as another type, cannot be cast.
    assert one.cast(other.schema).to_pylist() == other.to_pylist()
    assert shape(one.schema) == shape(other.schema)
    commented = {field.name: field.metadata["comment"] for field in by_spark.table(name).schema}
    assert comments(name) == commented
    assert all(commented.values())


def test_a_field_with_two_types_in_two_layouts_is_refused() -> None:
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
