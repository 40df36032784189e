"""Views of history over a log without times (message format 0): `valid_to IS NULL` means still valid."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from tests.cli.written_lake import AS_OF, ledger
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.recorded import tables_of

# Views, and the columns that name what a row is a state of.
VIEWS = {
    "group_history": "offsets_partition, group_id",
    "group_member_history": "offsets_partition, group_id, member_id",
    "offset_history": "offsets_partition, group_id, topic, partition",
    "partition_owners": "offsets_partition, group_id, member_id, topic_id, topic, partition",
}


@pytest.fixture(scope="module")
def views() -> duckdb.DuckDBPyConnection:
    """A recording whose records have no times."""
    found = dict(tables_of("kip848-4.3"))
    for name, table in found.items():
        at = table.schema.get_field_index("log_timestamp")
        if at >= 0:
            field = table.schema.field(at)
            found[name] = table.set_column(at, field, pa.nulls(table.num_rows, field.type))
    return in_duckdb(found | {"audits": ledger({}, {"audit_id": 2, "status": "running"})})


@pytest.mark.parametrize("view", VIEWS)
def test_valid_to_is_null_for_the_current_state_alone(views: duckdb.DuckDBPyConnection, view: str) -> None:
    is_newest = f"row_number() OVER (PARTITION BY {VIEWS[view]} ORDER BY log_offset DESC) = 1"
    if view == "partition_owners":
        is_newest = "released_log_offset IS NULL"
    condition = "took_effect" if view == "offset_history" else "true"
    rows = rows_of(views, f"SELECT valid_to, {is_newest} AS is_newest FROM {view} WHERE {condition}")
    assert {(row["valid_to"], row["is_newest"]) for row in rows} == {(None, True), (AS_OF, False)}
