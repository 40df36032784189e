"""The schemas against the contract, which is in tests/data/tables/contract.txt as written before the code."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from kgroups_spark import words
from kgroups_spark.coordinator import share_shard, transaction_shard
from kgroups_spark.messages.coordinator_records import REASONS
from kgroups_spark.offsets import expiry
from kgroups_spark.tables.schemas import TABLES, arrow_schema

CONTRACT = Path(__file__).parents[1] / "data" / "tables" / "contract.txt"
INTERNAL = {"checkpoints", "previous_offset_expiry", "state_log_state"}
# Columns with one of several words.
WORDS = {
    ("offset_expiry", "reason"): expiry.REASONS,
    ("offset_expiry", "base"): expiry.BASES,
    ("group_expiry", "reason"): expiry.GROUP_REASONS,
    ("group_events", "event"): words.EVENTS.keys() - {*share_shard.EVENTS, *transaction_shard.EVENTS},
    ("quarantine", "reason"): (*REASONS, "corrupt_batch", "load_would_fail"),
}

SQL_NAMES = {
    "bigint": "BIGINT",
    "int": "INT",
    "smallint": "SMALLINT",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "binary": "BINARY",
    "timestamp": "TIMESTAMP",
}


def contract() -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    name = ""
    for line in CONTRACT.read_text().splitlines():
        if line.startswith("  "):
            tables[name].append(line.strip())
        elif line and not line.startswith("#"):
            name = line
            tables[name] = []
    return tables


def in_sql(data_type: DataType) -> str:
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{in_sql(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{in_sql(data_type.keyType)}, {in_sql(data_type.valueType)}>"
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(f'{field.name} {in_sql(field.dataType)}' for field in data_type)}>"
    return SQL_NAMES[data_type.simpleString()]


def all_fields(data_type: DataType) -> list[StructField]:
    """Every column, and every field of the structs inside."""
    if isinstance(data_type, StructType):
        return [inner for field in data_type for inner in [field, *all_fields(field.dataType)]]
    if isinstance(data_type, ArrayType):
        return all_fields(data_type.elementType)
    return []


def test_the_tables_are_those_of_the_contract_and_the_internal_ones():
    assert set(TABLES) == set(contract()) | INTERNAL


@pytest.mark.parametrize("name", contract())
def test_a_table_has_the_contracts_columns_types_and_order(name):
    assert [f"{field.name} {in_sql(field.dataType)}" for field in TABLES[name].schema] == contract()[name]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_says_what_it_holds_and_when_it_is_null(name):
    for field in all_fields(TABLES[name].schema):
        assert len(field.metadata["comment"]) > 3, field.name


@pytest.mark.parametrize(("name", "column"), WORDS)
def test_the_comment_of_a_column_names_each_of_its_words(name, column):
    comment = TABLES[name].schema[column].metadata["comment"]
    assert set(WORDS[name, column]) - set(re.findall(r"\w+", comment)) == set()


@pytest.mark.parametrize("name", TABLES)
def test_keys_and_statistics_are_columns_and_keys_are_never_null_where_they_can_be_relied_on(name):
    table = TABLES[name]
    assert set(table.key) <= set(table.schema.names)
    assert set(table.statistics) <= set(table.schema.names)
    nullable_in_keys = {column for column in table.key if table.schema[column].nullable}
    # Records without a time have no hour; a state entry need not be about a group, a finding or fact about anything.
    assert nullable_in_keys <= {"hour"} or table.kind == "internal" or name in ("findings", "cluster_facts")


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.kind == "history"])
def test_history_has_statistics_on_the_columns_that_its_readers_ask_for(name):
    """Where a row is in a log, of which audit, time, group or transaction it is."""
    where = {"audit_id", "offsets_partition", "state_partition", "log_offset"}
    asked = where | {"log_timestamp", "group_id", "transactional_id"}
    assert set(TABLES[name].statistics) == asked & set(TABLES[name].schema.names)


@pytest.mark.parametrize("name", TABLES)
def test_everything_inside_arrays_and_maps_is_nullable_because_delta_requires_it(name):
    def check(data_type: DataType) -> None:
        if isinstance(data_type, ArrayType):
            assert data_type.containsNull
            check(data_type.elementType)
        elif isinstance(data_type, MapType):
            assert data_type.valueContainsNull
            check(data_type.valueType)
        elif isinstance(data_type, StructType):
            assert all(field.nullable for field in data_type)

    for field in TABLES[name].schema:
        check(field.dataType)


def test_arrow_has_the_same_columns_nullability_and_times_in_utc():
    schema = arrow_schema("pending_offsets")
    assert schema.names == TABLES["pending_offsets"].schema.names
    assert schema.field("open_since") == pa.field("open_since", pa.timestamp("us", "UTC"), nullable=True)
    assert schema.field("metadata") == pa.field("metadata", pa.string(), nullable=False)
    assert schema.field("producer_epoch").type == pa.int16()
