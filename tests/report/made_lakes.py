"""Lakes for the report, made by hand: rows in tables, views and functions over them in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kgroups_spark.report.figures import Ask
from kgroups_spark.sql import known_history
from kgroups_spark.sql.views import needed_for
from kgroups_spark.tables.schemas import arrow_schema
from tests.views.arrow_tables import KNOWN_HISTORY, answer_of, in_duckdb

Row = dict[str, Any]
AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
DAY = timedelta(days=1)
# A name may hold all of this: the end of the script around it, markup, the end of an attribute, control and direction
# characters.
HOSTILE = "</script><img src=x onerror=\"document.title='run'\"><!--'&amp;{{7*7}}\x00\x1b[31m\n\u202egnp"


def partition_read(offsets_partition: int = 0, **reported: Any) -> Row:
    """An entry of the ledger's `partitions`."""
    return {
        "offsets_partition": offsets_partition,
        "log_start_offset": 0,
        "start_offset": 0,
        "end_offset": 0,
        "records": 0,
        "records_reread": 0,
        "bytes": 0,
        "offsets_missing": 0,
    } | reported


def audit_row(partitions: Sequence[Row] = (), **reported: Any) -> Row:
    return {
        "status": "finished",
        "owner": "",
        "started_at": AS_OF,
        "finished_at": AS_OF,
        "as_of": AS_OF,
        "retention_ms": 7 * 86_400_000,
        "retention_source": "default",
        "release_version": "4.3",
        "rules_version": 1,
        "state_format": 1,
        "source": "segments",
        "software_version": "0",
        "lake_version": 3,
        "notes": [],
        "rows_added": {"findings": 0},
        "quarantined": {},
        "record_counts": [],
        "partitions": list(partitions),
    } | reported


def group_row(group_id: str = "g", **reported: Any) -> Row:
    return {
        "offsets_partition": 0,
        "group_id": group_id,
        "group_type": "classic",
        "state": "Empty",
        "is_simple": False,
        "member_count": 0,
    } | reported


def expiry_row(group_id: str = "g", **reported: Any) -> Row:
    return {
        "offsets_partition": 0,
        "as_of": AS_OF,
        "retention_ms": 7 * 86_400_000,
        "group_id": group_id,
        "topic": "t",
        "partition": 0,
        "committed_offset": 5,
        "log_offset": 1,
        "decision": "keep",
        "reason": "within_retention",
        "base": "commit_timestamp",
        "base_timestamp": AS_OF - DAY,
        "expires_at": AS_OF + 6 * DAY,
        "expires_at_if_empty": AS_OF + 6 * DAY,
    } | reported


def event_row(event: str, group_id: str = "g", **reported: Any) -> Row:
    return {
        "offsets_partition": 0,
        "log_offset": 1,
        "event_index": 0,
        "log_timestamp": AS_OF - DAY,
        "event_timestamp": AS_OF - DAY,
        "group_id": group_id,
        "group_type": "classic",
        "event": event,
    } | reported


def tables(**rows: Sequence[Row]) -> dict[str, pa.Table]:
    """Tables by name; without `audits` one audit that read nothing. Committed offsets are those of `offset_expiry`."""
    filled = {"audits": [audit_row()]} | rows
    if "committed_offsets" not in filled:
        filled["committed_offsets"] = [
            {name: row[name] for name in ("offsets_partition", "group_id", "topic", "partition", "committed_offset")}
            | {"commit_timestamp": row["base_timestamp"], "log_offset": row["log_offset"], "is_orphan": False}
            for row in filled.get("offset_expiry", [])
        ]
    return {
        name: pa.Table.from_pylist([{"audit_id": 1} | row for row in its], schema=arrow_schema(name))
        for name, its in filled.items()
    }


SMALL = 1_000
_answers: dict[tuple[str, str], pa.Table] = {}


@contextmanager
def asked(lake: Mapping[str, pa.Table]) -> Iterator[Ask]:
    """A function that answers queries on the tables. It keeps an answer for all lakes with the same rows in the tables
    that the query needs: most queries of a page need only tables that are empty in nearly all lakes."""
    with in_duckdb(lake) as connection:

        def answer(query: str) -> pa.Table:
            needed = {name: lake[name] for name in needed_for(query) if name in lake}
            if sum(map(len, needed.values())) > SMALL:
                return answer_of(connection, query)
            key = query, repr({name: rows.to_pylist() for name, rows in needed.items()})
            if key not in _answers:
                _answers[key] = answer_of(connection, query)
            return _answers[key]

        # Readers of lakes have this view with its row as a constant.
        connection.register(known_history.NAME, answer(KNOWN_HISTORY))
        yield lambda query: answer(query).to_pylist(maps_as_pydicts="strict")


def many_groups(count: int) -> dict[str, pa.Table]:
    """A lake of so many groups, three offsets each; every other group is empty and loses them."""
    groups, expiry = [], []
    for number in range(count):
        name, is_empty = f"team-{number % 37:02}.service-{number:05}.consumer", number % 2 == 0
        state = {"state": "Empty"} if is_empty else {"state": "Stable", "member_count": number % 9 + 1}
        groups.append(group_row(name, offsets_partition=number % 50, **state))
        due = {"expires_at": AS_OF + (number % 30) * DAY} if is_empty else {"expires_at": None}
        if_empty = {"expires_at_if_empty": AS_OF + (number % 5) * DAY}
        expiry += [expiry_row(name, offsets_partition=number % 50, partition=p, **if_empty, **due) for p in range(3)]
    partitions = [partition_read(p, end_offset=10, records=10, bytes=999) for p in range(50)]
    return tables(audits=[audit_row(partitions)], groups=groups, offset_expiry=expiry)
