"""Findings as SQL of DuckDB: a file each in `sql/`.

    -- error: committed offsets of a group that does not exist          its severity and its summary
    --
    -- {offsets:counted committed offset} belong to {group_id} ...      the sentences of a row (sentences.py)

    SELECT ...                                                          the rows, with columns of `findings`

A query reads the tables as the audit leaves them, and what the audit knows besides: `$audit_id`, `$as_of`,
`$retention_ms`, the table `read` (each offsets partition, the time up to which its log is known, its start), and
the tables `large_records`, `times_off`, `mixed_commits`, `hidden` of what it read, or could not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgroups_spark.findings.evidence import Evidence
from kgroups_spark.findings.finding import SQL, VIEWS, Finding
from kgroups_spark.sentences import filled
from kgroups_spark.tables.schemas import TABLES, arrow_schema

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connect(evidence: Evidence) -> DuckDBPyConnection:
    """DuckDB with the facts of the audit. Tables are registered when a finding needs them."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
    # Most of the driver's memory is for Spark: DuckDB writes rows beyond this limit to files.
    connection.execute(f"SET memory_limit = '512MB'; SET temp_directory = '{gettempdir()}/kgroups-findings'")
    given, not_given = dict.fromkeys(evidence.log_starts, evidence.known_until), dict(evidence.known_until_of)
    read = [
        (number, min(until, evidence.known_until), number not in not_given, evidence.log_starts.get(number, 0))
        for number, until in (given | not_given).items()
    ]
    facts = {
        "read": _table(READ, read),
        "large_records": _table(LARGE_RECORDS, evidence.large_records),
        "times_off": _table(TIMES_OFF, evidence.times_off),
        "mixed_commits": _table(MIXED_COMMITS, [(number, *mixed) for number, mixed in evidence.mixed_commits]),
        "hidden": _table(HIDDEN, evidence.hidden),
        "before": pa.Table.from_pylist(evidence.before, arrow_schema("findings")),
    }
    for name, rows in facts.items():
        connection.register(name, rows)
    return connection


# Columns of the tables of facts with their types.
_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "time": pa.timestamp("us", "UTC"),
}
READ = "offsets_partition:int known_until:time was_given:bool log_start:long"
LARGE_RECORDS = "offsets_partition:int group_id record_name log_offset:long log_timestamp:long size_bytes:long"
TIMES_OFF = (
    "offsets_partition:int group_id topic partition:int log_offset:long commit_timestamp:long log_timestamp:long "
    "commits:long"
)
HIDDEN = "offsets_partition:int offsets:long log_ms:long"
MIXED_COMMITS = (
    "offsets_partition:int group_id topic partition:int transactional_commits:long plain_commits:long partitions:long "
    "log_offset:long"
)


def _table(columns: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    fields = [
        (name, _TYPES.get(kind, pa.string())) for name, _, kind in (each.partition(":") for each in columns.split())
    ]
    values = zip(*rows, strict=True) if rows else [()] * len(fields)
    return pa.table(
        [pa.array(column, kind) for column, (_, kind) in zip(values, fields, strict=True)], pa.schema(fields)
    )


def _make(connection: DuckDBPyConnection, evidence: Evidence, query: str) -> None:
    """Makes the tables and views that the query names."""
    for name in set(re.findall(r"\b(?:FROM|JOIN) (\w+)", query)):
        if name in TABLES:
            connection.register(name, evidence.tables.source(name))
        elif name in VIEWS:
            _make(connection, evidence, VIEWS[name])
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {VIEWS[name]}")


def found_by_sql(name: str, connection: DuckDBPyConnection, evidence: Evidence) -> Iterator[Finding]:
    """The finding's rows, with their sentences."""
    sql = SQL[name]
    _make(connection, evidence, sql.query)
    asked = {"audit_id": evidence.audit_id, "as_of": evidence.as_of, "retention_ms": evidence.retention_ms}
    asked |= {"known_until": evidence.known_until}
    used = {parameter: value for parameter, value in asked.items() if f"${parameter}" in sql.query}
    rows = connection.sql(sql.query, params=used).to_arrow_table().to_pylist()
    for row in rows:
        yield Finding.of(name, row, row.pop("detail", None) or filled(sql.detail, row | asked))
