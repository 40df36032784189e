"""Findings as SQL of DuckDB: a file each in `sql/`.

    -- error: committed offsets of a group that does not exist          its severity and its summary
    --
    -- {offsets:counted committed offset} belong to {group_id} ...      the sentences of a row (sentences.py)

    SELECT ...                                                          the rows, with columns of `findings`

A query reads the tables as the audit leaves them, and what the audit knows besides: `$audit_id`, `$as_of`,
`$retention_ms`, the table `read` (each offsets partition, the time up to which its log is known, its start), the tables
`large_records`, `times_off`, `mixed_commits`, `hidden` of what it read or could not read, `before` (the findings of the
last audit), and those of MADE. Views know `$audit_id` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgroups_spark.findings.evidence import Condition, Evidence
from kgroups_spark.findings.finding import SQL, VIEWS, Finding
from kgroups_spark.sentences import filled
from kgroups_spark.tables.schemas import GROUP, TABLES, arrow_schema
from kgroups_spark.throwaway import throwaway_groups

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connect(evidence: Evidence, folder: str) -> DuckDBPyConnection:
    """DuckDB with the facts of the audit. Tables are registered when a finding needs them. `folder`: for rows that do
    not fit into its memory."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
    # Most of the driver's memory is for Spark: DuckDB writes rows beyond this limit to files.
    connection.execute("SET memory_limit = '512MB'")
    connection.execute("SET temp_directory = $folder", {"folder": folder})
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
MEMBER = (*GROUP, "member_id")
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


MOVES = ["offset_rewound", "offset_skipped", "offset_restarted"]


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
            # DuckDB knows nothing of the files' statistics: it would open all files of history.
            of_audit = [Condition("audit_id", "==", evidence.audit_id)] if "audit_id = $audit_id" in query else []
            connection.register(name, evidence.tables.source(name, *of_audit))
        elif name in VIEWS:
            _make(connection, evidence, VIEWS[name])
            view = VIEWS[name].replace("$audit_id", str(evidence.audit_id))
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {view}")
        elif name in MADE:
            connection.register(name, MADE[name](evidence))


def _moved(evidence: Evidence) -> pa.Table | pa.dataset.Dataset:
    """The events, also of earlier audits, of groups with a move in this one."""
    of_audit, moves = Condition("audit_id", "==", evidence.audit_id), Condition("event", "in", MOVES)
    groups = evidence.tables.rows("group_events", ["group_id"], of_audit, moves)["group_id"].unique()
    # pyarrow refuses a list without a type.
    return evidence.tables.source("group_events", Condition("group_id", "in", groups.to_pylist() or [""]))


def _throwaway_groups(evidence: Evidence) -> pa.Table:
    """The name of each group that was most likely made for one run, with the pattern of these names."""
    groups = evidence.tables.rows("groups", ["group_id", "member_count"])
    found = throwaway_groups(zip(groups["group_id"].to_pylist(), groups["member_count"].to_pylist(), strict=True))
    return _table("pattern group_id", [(pattern, name) for pattern, names in found.items() for name in names])


def _away_members(evidence: Evidence) -> pa.Table:
    """Static members that left for a while, with the log times of their newest records. DuckDB would read all of
    history for this join."""
    columns = [*MEMBER, "log_offset", "group_instance_id", "client_host"]
    away = evidence.tables.rows("group_members", columns, Condition("member_epoch", "==", -2))
    named = ("offsets_partition", "log_offset")
    its = [Condition(name, "in", away[name].unique().to_pylist() or [-1]) for name in named]
    versions = evidence.tables.rows("group_member_versions", [*MEMBER, "log_offset", "log_timestamp"], *its)
    return away.join(versions, [*MEMBER, "log_offset"], join_type="inner")


def _target_records(evidence: Evidence) -> pa.Table:
    """The records of target assignments by member (of consumer, share and streams groups): those that this audit read,
    and earlier ones of groups with such a finding, which names one member of its group: there may be others."""
    columns = [*MEMBER, "log_offset", "log_timestamp", "value_version"]
    targets = Condition("record_type", "in", [7, 13, 21])
    before = [row["group_id"] for row in evidence.before if row["finding"] == "target_for_unknown_member"]
    earlier = Condition("audit_id", "<=", evidence.audit_id - 1), Condition("group_id", "in", before or [""])
    of_audit = Condition("audit_id", "==", evidence.audit_id)
    return pa.concat_tables(
        evidence.tables.rows("group_records", columns, targets, *conditions) for conditions in ([of_audit], earlier)
    )


MADE: dict[str, Callable[[Evidence], pa.Table | pa.dataset.Dataset]] = {
    "moved": _moved,
    "throwaway_groups": _throwaway_groups,
    "away_members": _away_members,
    "target_records": _target_records,
}


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
