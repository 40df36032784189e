"""Views and functions over the tables of a lake, as SQL in DuckDB's dialect. Each has a file in `sql/`, whose head
describes it and its columns (definition.py). Spark's SQL is translated from it when a session needs it (spark_sql.py).
Views of record types have no files: their SQL is generated from Kafka's message definitions (record_views.py).

    register_views(spark, lake)     temporary views of a Spark session
    duckdb_views("./lake")          a DuckDB connection, over deltalake; no Spark, no JVM

Both first make a view of every table, under the table's name, as the last finished audit left it: at the newest version
to which no later audit has committed. A reader of the views therefore never sees half an audit, even if one is running,
was killed, or finishes meanwhile: the answers stay the same until the views are registered again. The views' own SQL
reads only these views, and names no versions.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from kgroups_spark.package_data import package_text
from kgroups_spark.tables.columns import comment_of, type_name
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views.definition import Column, Columns, Definition, parsed
from kgroups_spark.views.dialects import duckdb_comments, duckdb_statement, spark_statement
from kgroups_spark.views.record_views import RECORD_VIEWS, record_view

Dialect = Literal["spark", "duckdb"]

# In the order of creation: a view may read those before it.
VIEWS = (
    "last_audit",
    "findings_audit",
    "audit_partitions",
    "replaced_ranges",
    "log_totals",
    "coverage",
    "known_history",
    "known_state_history",
    "expiry_outcomes",
    "lag",
    "share_lag",
    "effective_commits",
    "partition_owners",
    "offset_history",
    "transactional_producers",
    "transactions",
    "all_events",
    "group_history",
    "group_member_history",
    "group_topics",
    "topic_health",
    "rebalances",
    "unstable_periods",
    "topic_ids",
    "stale_offsets",
    *RECORD_VIEWS,
)

# In the same order. Table functions except the three about a group's partition, and known_as_of.
FUNCTIONS = (
    "java_hash",
    "offsets_partition_count",
    "offsets_partition_of",
    "log_ends_as_of",
    "known_as_of",
    "groups_as_of",
    "group_members_as_of",
    "committed_offsets_as_of",
    "pending_offsets_as_of",
    "state_log_ends_as_of",
    "state_known_as_of",
    "share_records_as_of",
    "share_partitions_as_of",
    "share_batches_as_of",
    "transactional_ids_as_of",
    "expiring",
)


# Neither engine pushes this subquery down to the ledger's files, so it would read them all; a number is pushed down.
LAST_FINISHED = "(SELECT max(audit_id) FROM audits WHERE status = 'finished')"


# The same for the audit whose decisions expiry_outcomes shows.
DECIDED_BY = "(SELECT max(decided_by) FROM previous_offset_expiry)"


@cache
def definition(name: str) -> Definition:
    """The view or function of that name. Raises FileNotFoundError for any other."""
    if name in RECORD_VIEWS:
        return record_view(name)
    text = package_text(f"views/sql/{name}.sql")
    return parsed(text, columns_of, is_function=name in FUNCTIONS)


def columns_of(name: str) -> Columns:
    """The columns of the table, view or function of that name. Raises FileNotFoundError for any other."""
    if name in TABLES:
        return {field.name: Column(comment_of(field), type_name(field.type)) for field in TABLES[name].columns}
    return definition(name).columns


def view_sql(name: str, dialect: Dialect, audit_id: int | None = None) -> str:
    """The statement that makes the view or function, in DuckDB without its comments. Raises FileNotFoundError for an
    unknown name.

    `audit_id`: the last finished audit of the view's lake, so that queries do not search the whole ledger for it.
    """
    query = definition(name).query
    # Functions name the schema: in DuckDB a caller's WITH could hide the table.
    for form in (LAST_FINISHED, LAST_FINISHED.replace("FROM ", "FROM main.")) if audit_id is not None else ():
        query = query.replace(form, str(audit_id))
    return statement(name, query, dialect)


def statement(name: str, query: str, dialect: Dialect) -> str:
    """The statement that makes the view or function from this query, in DuckDB's dialect, instead of its own."""
    defined = definition(name)._replace(query=query)
    return duckdb_statement(name, defined) if dialect == "duckdb" else spark_statement(name, defined)


def comments_sql() -> str:
    """The statements that comment all views and functions in DuckDB, where all have been made: they take as long as to
    make them."""
    return "\n".join(duckdb_comments(name, definition(name)) for name in (*VIEWS, *FUNCTIONS))
