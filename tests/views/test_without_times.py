"""Views of history over a log without times (message format 0): `valid_to IS NULL` means still valid."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.cli.written_lake import AS_OF, ledger
from tests.views.arrow_tables import InSpark, in_duckdb, rows_of
from tests.views.recorded import tables_of

LOGS = ("kip848-4.3", "classic-4.3")
# Views, and the columns that name what a row is a state of.
VIEWS = {
    "group_history": "offsets_partition, group_id",
    "group_member_history": "offsets_partition, group_id, member_id",
    "offset_history": "offsets_partition, group_id, topic, partition",
    "partition_owners": "offsets_partition, group_id, member_id, topic_id, topic, partition",
}


@cache
def tables(log: str) -> dict[str, pa.Table]:
    """A recording whose records have no times."""
    found = dict(tables_of(log))
    for name, table in found.items():
        at = table.schema.get_field_index("log_timestamp")
        if at >= 0:
            field = table.schema.field(at)
            found[name] = table.set_column(at, field, pa.nulls(table.num_rows, field.type))
    return found | {"audits": ledger({}, {"audit_id": 2, "status": "running"})}


@pytest.fixture(scope="module", params=LOGS)
def views(request: pytest.FixtureRequest) -> duckdb.DuckDBPyConnection:
    return in_duckdb(tables(request.param))


def test_valid_to_is_null_for_the_current_state_alone(views: duckdb.DuckDBPyConnection) -> None:
    for view, keys in VIEWS.items():
        is_newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY log_offset DESC) = 1"
        condition = "took_effect" if view == "offset_history" else "true"
        if view == "partition_owners":
            is_newest = "released_log_offset IS NULL"
        rows = rows_of(views, f"SELECT valid_to, {is_newest} AS is_newest FROM {view} WHERE {condition}")
        assert all((row["valid_to"] is None) == row["is_newest"] for row in rows), view
        assert {row["valid_to"] for row in rows} <= {None, AS_OF}
        assert {row["is_newest"] for row in rows} == {True, False} or view == "partition_owners"


def test_current_groups_and_offsets_are_those_of_the_tables(views: duckdb.DuckDBPyConnection) -> None:
    for table, history in (
        ("SELECT group_id FROM groups", "SELECT group_id FROM group_history WHERE NOT is_removed"),
        ("SELECT group_id, member_id FROM group_members", "SELECT group_id, member_id FROM group_member_history "
         "WHERE NOT is_removed"),
        ("SELECT group_id, topic, partition, committed_offset FROM committed_offsets",
         "SELECT group_id, topic, partition, committed_offset FROM offset_history "
         "WHERE took_effect AND committed_offset IS NOT NULL"),
    ):  # fmt: skip
        assert rows_of(views, f"{history} AND valid_to IS NULL") == rows_of(views, table)


@pytest.mark.spark
def test_spark_agrees_with_duckdb(spark: SparkSession) -> None:
    by_spark, by_duckdb = InSpark(spark, tables("kip848-4.3")), in_duckdb(tables("kip848-4.3"))
    for view in VIEWS:
        assert rows_of(by_spark, f"SELECT * FROM {view}") == rows_of(by_duckdb, f"SELECT * FROM {view}") != []
