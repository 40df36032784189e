"""The tables, views and functions of a lake in DuckDB, which reads them through deltalake.

Neither is a dependency of this package: `pip install deltalake duckdb`. The lake must be a path, with tables that
deltalake gives as Arrow datasets (no deletion vectors: an audit makes none).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgroups_spark.errors import UsageError
from kgroups_spark.tables.as_of_audit import APP_IDS, last_finished_of
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.views import VIEWS, view_sql
from kgroups_spark.views.functions import FUNCTIONS

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection


def duckdb_views(location: str, storage_options: dict[str, str] | None = None) -> DuckDBPyConnection:
    """A connection of its own with a view for every table and every view, and every function, as of the last finished
    audit.

    `storage_options` are deltalake's, for object stores. Times are TIMESTAMP WITH TIME ZONE, shown in UTC.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    ledger = _table(location, "audits", storage_options)
    if ledger is None:
        raise UsageError(f"no lake at {location}: it has no table audits")
    last_finished = last_finished_of(ledger.to_pyarrow_table(columns=["audit_id", "status"]))
    for name in TABLES:
        table = ledger if name == "audits" else _table(location, name, storage_options)
        if table is None:  # a lake of an older layout
            connection.register(name, arrow_schema(name).empty_table())
            continue
        if name != "audits":
            _go_back_to(table, last_finished)
        # Columns that a table of an older layout lacks are null.
        connection.register(name, table.to_pyarrow_dataset(schema=arrow_schema(name)))
    for name in (*VIEWS, *FUNCTIONS):
        connection.execute(view_sql(name, "duckdb"))
    return connection


def _table(location: str, name: str, storage_options: dict[str, str] | None) -> DeltaTable | None:
    """The table's newest version; None: it is not there."""
    from deltalake import DeltaTable

    path = f"{location.rstrip('/')}/{name}"
    there = DeltaTable.is_deltatable(path, storage_options)
    return DeltaTable(path, storage_options=storage_options) if there else None


def _go_back_to(table: DeltaTable, audit_id: int) -> None:
    """Loads the newest version to which no later audit has committed: as LakeAsOfAudit does by Spark's means."""
    while any((table.transaction_version(app_id) or 0) > audit_id for app_id in APP_IDS):
        table.load_as_version(table.version() - 1)
