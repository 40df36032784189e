"""Views over the tables of a lake, as plain SQL: one file a view, in a dialect for Spark and one for DuckDB. Those of
record types have no files: their SQL is made from Kafka's message definitions (record_views.py).

    register_views(spark, lake)     temporary views of a Spark session
    duckdb_views("./lake")          a DuckDB connection, over deltalake; no Spark, no JVM

Both first make a view of every table, under the table's name, as the last finished audit left it: at the newest version
to which no later audit has committed. So whoever reads the views never sees half an audit, whether one runs, was
killed, or finishes meanwhile: then they say what they said until they are registered anew. The views' own SQL reads
nothing but these, and says nothing of versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from kgroups_spark.views.record_views import RECORD_VIEWS, record_view_sql

Dialect = Literal["spark", "duckdb"]

# In the order in which they are made: a view may read those before it.
VIEWS = (
    "last_audit",
    "audit_partitions",
    "log_totals",
    "coverage",
    "known_history",
    "expiry_outcomes",
    "lag",
    "effective_commits",
    "partition_owners",
    "offset_history",
    "transactions",
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


# Neither engine hands this down to the ledger's files, so that it would read them all; a number it does.
LAST_FINISHED = "(SELECT max(audit_id) FROM audits WHERE status = 'finished')"


# The same of the audit that decided what expiry_outcomes is about.
DECIDED_BY = "(SELECT max(decided_by) FROM previous_offset_expiry)"


def view_sql(name: str, dialect: Dialect, audit_id: int | None = None) -> str:
    """The statements that make the view. Raises FileNotFoundError for a name that is no view's.

    `audit_id`: the last finished audit of the lake that the view is made for, which then need not be looked for in the
    whole ledger each time the view is asked.
    """
    if name in RECORD_VIEWS:
        return record_view_sql(name, dialect)
    text = (Path(__file__).parent / dialect / f"{name}.sql").read_text()
    if audit_id is None:
        return text
    # DuckDB's functions name the schema: a caller's WITH could hide the table.
    for form in (LAST_FINISHED, LAST_FINISHED.replace("FROM ", "FROM main.")):
        text = text.replace(form, str(audit_id))
    return text
