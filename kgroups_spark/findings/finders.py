"""All finders and their joint result; code that only names findings need not load this file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs

from kgroups_spark.coordinator.transaction_shard import (
    MAX_TRANSACTION_TIMEOUT_MS,
    Listings,
    TopicPartition,
    TransactionalIdRow,
)
from kgroups_spark.errors import attempt
from kgroups_spark.findings.finding import SQL, VIEWS, Evidence, Finding, LargeRecord, Row, TimesOff, order
from kgroups_spark.messages.coordinator_records import absolute_hashes
from kgroups_spark.spark.interruption import uninterrupted
from kgroups_spark.tables.columns import (
    BIGINT,
    BOOLEAN,
    STRING,
    TIMESTAMP,
    Condition,
    partitions_in_lots,
    rows_that_meet,
)
from kgroups_spark.tables.schemas import GROUP, TABLES, arrow_schema
from kgroups_spark.words import JAVA_INT_MAX, filled, throwaway_groups, to_epoch_ms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


ListingRow = Mapping[str, Any]
# (columns, conditions) -> rows of transactional_ids that meet the conditions.
Ask = Callable[[Sequence[str], Sequence[Condition]], Iterable[ListingRow]]

COLUMNS = (
    "state_partition",
    "transactional_id",
    "producer_id",
    "state",
    "timeout_ms",
    "topic_partitions",
    "log_offset",
)


def listings(
    ask: Ask, producers: Collection[int], read: Collection[int], known_until: datetime | None
) -> Listings | None:
    """The listing of these producers; None: no partition of the log was read. `read`: partitions of
    `__transaction_state` that were read, up to `known_until` (None: now)."""
    if not read:
        return None
    rows = ask(COLUMNS, [Condition("producer_id", "in", sorted(producers))]) if producers else ()
    return Listings(
        map(listing_row, rows),
        is_complete=are_all(read, ask(("state_partition", "transactional_id"), [])),
        known_until=None if known_until is None else to_epoch_ms(known_until),
    )


def are_all(read: Collection[int], ids: Iterable[ListingRow]) -> bool:
    """Whether these are all partitions of the log, whose count no record holds: their numbers have no gap, and each id
    hashes to its partition with so many."""
    count = len(read)
    if set(read) != set(range(count)):
        return False
    rows = [(row["transactional_id"], row["state_partition"]) for row in ids]
    return bool((absolute_hashes([name for name, _ in rows]) % count == [number for _, number in rows]).all())


def listing_row(row: ListingRow) -> TransactionalIdRow:
    """A row of transactional_ids with some of its columns."""
    partitions = [TopicPartition(each["topic"], each["partition"]) for each in row["topic_partitions"] or ()]
    fields: dict[str, Any] = dict.fromkeys(TransactionalIdRow._fields)
    return TransactionalIdRow(**(fields | dict(row) | {"topic_partitions": partitions}))


# Findings as SQL of DuckDB: a file each in `sql/`.
#
#     -- error by committed_offsets (is_orphan == true): committed ...    its severity, the tables of which one has a
#                                                                         row like this for each of its rows; summary
#     -- of a group the first by topic                                    the number of the others is in its column
#                                                                         `others`; or `of all partitions`, if a row is
#                                                                         not of one offsets partition; or nothing
#     -- {offsets:counted committed offset} belong to {group_id} ...      the sentences of a row (words.py)
#
#     SELECT ...                                                          the rows, with columns of `findings`
#
# A query reads the tables as the audit leaves them, and what the audit knows besides: `$audit_id`, `$as_of`,
# `$retention_ms`, `$max_transaction_timeout_ms` (Kafka's default; `$timed_out_since`: that long before `$known_until`),
# the partitions of `__transaction_state` that were read, whether these are all, and the time up to which its log is
# known (`$state_partitions`, `$state_is_complete`, `$state_known_until`), the table `read` (each offsets partition, the
# time up to which its log is known, its start), and those of MADE. A file whose name begins with `_` makes a table for
# others; it knows `$audit_id` only. In a large lake tables with a column `offsets_partition` have the rows of some
# partitions at a time.


Source: TypeAlias = pa.Table | pa.dataset.Dataset
# The tables that there are: whether with this audit's rows only, and what DuckDB reads; None: it has them itself.
Made: TypeAlias = dict[str, tuple[bool, Source | None]]


@contextmanager
def connected(memory: str = "160MB", **tables: pa.dataset.Dataset) -> Iterator[DuckDBPyConnection]:
    """DuckDB with these tables, and with a folder for rows that do not fit into its memory."""
    with TemporaryDirectory(prefix="kgroups-") as folder, uninterrupted(lambda: connect(folder, memory)) as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        yield connection


def connect(folder: str, memory: str) -> DuckDBPyConnection:
    import duckdb

    # Most of the driver's memory is for Spark: DuckDB writes rows beyond this limit to files.
    connection = duckdb.connect(config={"memory_limit": memory, "temp_directory": folder})
    connection.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
    return connection


NUMBER = "offsets_partition"
MEMBER = (*GROUP, "member_id")
# Columns of the tables of facts with their types.
_TYPES = {int: BIGINT, int | None: BIGINT, bool: BOOLEAN, str: STRING, datetime: TIMESTAMP}
READ = {NUMBER: int, "known_until": datetime, "was_given": bool, "log_start": int}
HIDDEN = {NUMBER: int, "offsets": int, "log_ms": int}
MOVES = ["offset_rewound", "offset_skipped", "offset_restarted"]


def _table(columns: Mapping[str, Any], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)


def _make(connection: DuckDBPyConnection, evidence: Evidence, query: str, made: Made) -> None:
    """Makes the tables that the query names: once, as that costs twice as much as the queries."""
    asks_for_audit = "audit_id = $audit_id" in query
    for name in set(re.findall(r"\b(?:FROM|JOIN) (\w+)", query)):
        of_audit = asks_for_audit and name in TABLES and TABLES[name].kind == "history"
        if name not in {*TABLES, *MADE, *VIEWS} or (name in made and made[name][0] == of_audit):
            continue
        if name in VIEWS:
            _make(connection, evidence, VIEWS[name], made)
            view = VIEWS[name].replace("$audit_id", str(evidence.audit_id))
            connection.execute(f"CREATE TEMP TABLE {name} AS {view}")
            made[name] = (of_audit, None)
            continue
        if name in MADE:
            source = MADE[name](evidence)
        else:
            # DuckDB knows nothing of the files' statistics: it would open all files of history.
            conditions = [Condition("audit_id", "==", evidence.audit_id)] if of_audit else []
            conditions += evidence.lot if NUMBER in TABLES[name].columns.names else ()
            source = evidence.tables.source(name, *conditions)
        if isinstance(source, pa.dataset.FileSystemDataset) and isinstance(source.filesystem, pa.fs.LocalFileSystem):
            # DuckDB reads files for two thirds of what their Arrow rows cost it. Spark writes times without a zone.
            files = connection.read_parquet(source.files, union_by_name=True)
            times = (each.name for each in source.schema if pa.types.is_timestamp(each.type))
            zoned = ", ".join(f"CAST({each} AS TIMESTAMPTZ) AS {each}" for each in times)
            rows = files.project(f"* REPLACE ({zoned})" if zoned else "*")
        else:
            rows = connection.from_arrow(source)
        if evidence.lot and NUMBER in rows.columns:
            rows = rows.filter(" AND ".join(f"{each.column} {each.comparison} {each.value}" for each in evidence.lot))
        rows.create_view(name, replace=True)
        made[name] = (of_audit, source)


def _read(evidence: Evidence) -> pa.Table:
    """Each offsets partition, the time up to which its log is known, and its start."""
    given, not_given = dict.fromkeys(evidence.log_starts, evidence.known_until), dict(evidence.known_until_of)
    read = [
        (number, min(until, evidence.known_until), number not in not_given, evidence.log_starts.get(number, 0))
        for number, until in (given | not_given).items()
    ]
    return _table(READ, read)


def _moved(evidence: Evidence) -> Source:
    """The events, also of earlier audits, of groups with a move in this one."""
    of_audit, moves = Condition("audit_id", "==", evidence.audit_id), Condition("event", "in", MOVES)
    groups = evidence.tables.rows("group_events", ["group_id"], of_audit, moves, *evidence.lot)["group_id"].unique()
    return evidence.tables.source("group_events", Condition("group_id", "in", groups.to_pylist()))


def _throwaway_groups(evidence: Evidence) -> pa.Table:
    """By pattern, the number of groups that were most likely made for one run each, and the first of their names."""

    def names(*of_members: Condition) -> Iterator[str]:
        for some in evidence.tables.rows("groups", ["group_id"], *of_members)["group_id"].chunks:
            yield from some.to_pylist()

    empty, in_use = Condition("member_count", "==", 0), Condition("member_count", ">=", 1)
    found = throwaway_groups(names(empty), names(in_use)).items()
    columns = {"pattern": str, "group_id": str, "groups": int}
    return _table(columns, [(pattern, its[0], len(its)) for pattern, its in found])


def _away_members(evidence: Evidence) -> pa.Table:
    """Static members that left for a while, with their last log times. DuckDB would read all of history."""
    columns = [*MEMBER, "log_offset", "group_instance_id", "client_host"]
    away = evidence.tables.rows("group_members", columns, Condition("member_epoch", "==", -2), *evidence.lot)
    named = ("offsets_partition", "log_offset")
    its = [Condition(name, "in", away[name].unique().to_pylist()) for name in named]
    versions = evidence.tables.rows("group_member_versions", [*MEMBER, "log_offset", "log_timestamp"], *its)
    return away.join(versions, [*MEMBER, "log_offset"], join_type="inner")


def _target_records(evidence: Evidence) -> pa.Table:
    """The records of target assignments by member (of consumer, share and streams groups): those that this audit read,
    and earlier ones of groups with such a finding, which names one member of its group: there may be others."""
    columns = [*MEMBER, "log_offset", "log_timestamp", "value_version"]
    targets = Condition("record_type", "in", [7, 13, 21]), *evidence.lot
    before = [row["group_id"] for row in evidence.before if row["finding"] == "target_for_unknown_member"]
    earlier = Condition("audit_id", "<=", evidence.audit_id - 1), Condition("group_id", "in", before)
    asked = [Condition("audit_id", "==", evidence.audit_id)], earlier
    return pa.concat_tables(evidence.tables.rows("group_records", columns, *targets, *each) for each in asked)


def _ends_before(evidence: Evidence) -> pa.Table:
    """The rows of topic_offsets of the audit whose decisions are in previous_offset_expiry."""
    decided_by = pc.max(evidence.tables.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
    columns = ["topic", "topic_id", "partition", "log_start_offset", "log_end_offset", "seen_at"]
    return evidence.tables.rows("topic_offsets", columns, Condition("audit_id", "==", decided_by or 0))


MADE: dict[str, Callable[[Evidence], Source]] = {
    "read": _read,
    "large_records": lambda evidence: _table(get_type_hints(LargeRecord), evidence.large_records),
    "times_off": lambda evidence: _table(get_type_hints(TimesOff), evidence.times_off),
    "hidden": lambda evidence: _table(HIDDEN, evidence.hidden),
    "before": lambda evidence: pa.Table.from_pylist(evidence.before, arrow_schema("findings")),
    "moved": _moved,
    "throwaway_groups": _throwaway_groups,
    "away_members": _away_members,
    "ends_before": _ends_before,
    "target_records": _target_records,
}


def _may_find(
    connection: DuckDBPyConnection, evidence: Evidence, made: Made, asked: Row, by: tuple[str, list[Condition]]
) -> bool:
    """Whether there is a row as the finding's head says."""
    table, conditions = by[0], [each._replace(value=asked.get(str(each.value)[1:], each.value)) for each in by[1]]
    if table in TABLES:
        conditions += evidence.lot if NUMBER in TABLES[table].columns.names else ()
        return bool(evidence.tables.rows(table, TABLES[table].columns.names[:1], *conditions).num_rows)
    _make(connection, evidence, f"FROM {table}", made)
    source = made[table][1]
    if isinstance(source, pa.Table):
        return bool(rows_that_meet(source, conditions).num_rows)
    where = "".join(f" AND {each.column} {each.comparison} {each.value}" for each in conditions)
    return bool(connection.execute(f"SELECT 1 FROM {table} WHERE true{where} LIMIT 1").fetchall())


def found_by_sql(name: str, connection: DuckDBPyConnection, made: Made, evidence: Evidence) -> list[Finding]:
    """The finding's rows, with sentences. The query is not asked (4 to 30 ms) where its tables have no row for it."""
    sql, state = SQL[name], evidence.transaction_state
    asked = {"audit_id": evidence.audit_id, "as_of": evidence.as_of, "retention_ms": evidence.retention_ms}
    asked |= {"known_until": evidence.known_until, "state_known_until": state.known_until or evidence.known_until}
    asked |= {"state_partitions": sorted(state.partitions), "state_is_complete": False}
    asked["max_transaction_timeout_ms"] = MAX_TRANSACTION_TIMEOUT_MS
    asked["timed_out_since"] = evidence.known_until - timedelta(milliseconds=MAX_TRANSACTION_TIMEOUT_MS)
    if not any(_may_find(connection, evidence, made, asked, each) for each in sql.tables):
        return []
    _make(connection, evidence, sql.query, made)
    if "$state_is_complete" in sql.query and evidence.tables.rows("open_transactions", ["producer_id"]).num_rows:
        ids = evidence.tables.rows("transactional_ids", ["state_partition", "transactional_id"])
        asked["state_is_complete"] = are_all(state.partitions, ids.to_pylist())
    used = {parameter: value for parameter, value in asked.items() if f"${parameter}" in sql.query}
    # Not `sql`, which binds the query twice: once to describe its rows.
    answer = connection.execute(sql.query, used)
    names = [name for name, *_ in answer.description]
    rows = (dict(zip(names, values, strict=True)) for values in answer.fetchall())
    return [Finding.of(name, row, row.pop("detail", None) or filled(sql.detail, row | asked)) for row in rows]


class Found(NamedTuple):
    """The findings, errors first, in an order that depends only on them; notes on finders that failed."""

    findings: list[Finding]
    notes: list[str]


# The number of groups and members that are looked at together; one offsets partition may have more.
AT_ONCE = 500_000


def look(evidence: Evidence) -> Found:
    """All findings. One that fails finds nothing (in a large lake: in some partitions), and leaves a note."""
    of_all = [name for name in SQL if SQL[name].is_of_all]
    if lots := _lots(evidence):
        of_lot = [name for name in SQL if name not in of_all]
        found = [_found(evidence, of_all), *(_found(replace(evidence, lot=lot), of_lot) for lot in lots)]
    else:
        found = [_found(evidence, SQL)]
    findings = sorted((each for some in found for each in some.findings), key=lambda each: order(each._asdict()))
    return Found(findings, [*dict.fromkeys(note for some in found for note in some.notes)])


def _found(evidence: Evidence, names: Iterable[str]) -> Found:
    findings, notes, made = list[Finding](), list[str](), Made()
    with ExitStack() as stack:
        connection, failure = attempt("starting DuckDB", lambda: stack.enter_context(connected()))
        if connection is None:
            return Found([], [str(failure)])
        for name in names:
            find = partial(found_by_sql, name, connection, made, evidence)
            found, failure = attempt(f"looking for {name}", partial(uninterrupted, find))
            findings += found or []
            notes += [failure] if failure else []
    return Found(findings, notes)


def _lots(evidence: Evidence) -> list[Sequence[Condition]]:
    """Conditions for the offsets partitions that are looked at together; none: all are."""
    rows = Counter[int]()
    for name in ("groups", "group_members"):
        for each in evidence.tables.rows(name, [NUMBER])[NUMBER].value_counts().to_pylist():
            rows[each["values"]] += each["counts"]
    firsts = [min(lot.value) for lot in partitions_in_lots(rows, AT_ONCE)][1:]
    # Other tables may have other partitions.
    bounds = pairwise((0, *firsts, JAVA_INT_MAX + 1)) if firsts else ()
    return [(Condition(NUMBER, ">=", first), Condition(NUMBER, "<=", after - 1)) for first, after in bounds]


# The ledger's rows_added has this table for each audit that looked, with 0 if it found nothing.
FINDINGS = "findings"


def has_looked(audit: Mapping[str, Any]) -> bool:
    """Whether a finished audit looked for findings, by its row of the ledger (or rows_added); maintenance does not."""
    return FINDINGS in (audit["rows_added"] or {})
