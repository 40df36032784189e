"""Lakes for the report, made by hand: rows in tables, views and functions over them in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kgroups_spark.report.figures import Ask
from kgroups_spark.sql.views import KNOWN_HISTORY, needed_for
from tests.lake.table_rows import rows_of
from tests.views.arrow_tables import answer_of, in_duckdb

Row = dict[str, Any]
AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
DAY = timedelta(days=1)
# A name may hold all of this: the end of the script around it, markup, the end of an attribute, control and direction
# characters.
HOSTILE = "</script><img src=x onerror=\"document.title='run'\"><!--'&amp;{{7*7}}\x00\x1b[31m\n\u202egnp"


def partition_read(offsets_partition: int = 0, **reported: Any) -> Row:
    """An entry of the ledger's `partitions`."""
    names = ("log_start_offset", "start_offset", "end_offset", "records", "records_reread", "bytes", "offsets_missing")
    return {"offsets_partition": offsets_partition, **dict.fromkeys(names, 0), **reported}


def audit_row(partitions: Sequence[Row] = (), **reported: Any) -> Row:
    times = dict.fromkeys(("started_at", "finished_at", "as_of"), AS_OF)
    rules = {"retention_ms": 7 * 86_400_000, "retention_source": "default", "release_version": "4.3"}
    nothing = {"notes": [], "rows_added": {"findings": 0}, "quarantined": {}, "record_counts": []}
    read = {"source": "segments", "partitions": list(partitions)}
    return {"status": "finished", **times, **rules, **nothing, **read, **reported}


def group_row(group_id: str = "g", **reported: Any) -> Row:
    return {"group_id": group_id, "group_type": "classic", "state": "Empty", **reported}


def expiry_row(group_id: str = "g", **reported: Any) -> Row:
    slot = {"group_id": group_id, "topic": "t", "partition": 0, "committed_offset": 5, "log_offset": 1}
    decided = {"as_of": AS_OF, "retention_ms": 7 * 86_400_000, "decision": "keep", "reason": "within_retention"}
    decided |= {"base": "commit_timestamp", "base_timestamp": AS_OF - DAY}
    expires = {"expires_at": AS_OF + 6 * DAY, "expires_at_if_empty": AS_OF + 6 * DAY}
    return {"offsets_partition": 0, **slot, **decided, **expires, **reported}


def event_row(event: str, group_id: str = "g", **reported: Any) -> Row:
    times = {"log_timestamp": AS_OF - DAY, "event_timestamp": AS_OF - DAY}
    return {"log_offset": 1, "group_id": group_id, "group_type": "classic", "event": event, **times, **reported}


def tables(**rows: Sequence[Row]) -> dict[str, pa.Table]:
    """Tables by name, with something in every required column; without `audits` one audit that read nothing. Committed
    offsets are those of `offset_expiry`."""
    filled = {"audits": [audit_row()]} | rows
    if "committed_offsets" not in filled:
        filled["committed_offsets"] = [
            {name: row[name] for name in ("offsets_partition", "group_id", "topic", "partition", "committed_offset")}
            | {"commit_timestamp": row["base_timestamp"], "log_offset": row["log_offset"], "is_orphan": False}
            for row in filled.get("offset_expiry", [])
        ]
    return {name: rows_of(name, *({"audit_id": 1, **row} for row in its)) for name, its in filled.items()}


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
        connection.register(KNOWN_HISTORY, answer(f"FROM {KNOWN_HISTORY}"))
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


# A lake whose names are hostile to a page, or too long for it.


def hostile_lake(name: str = HOSTILE) -> dict[str, pa.Table]:
    return tables(
        audits=[audit_row([partition_read(end_offset=9, records=9)], notes=[name])],
        groups=[group_row(name), group_row("b" + name)],
        group_versions=[
            {"offsets_partition": 0, "log_offset": 1, "log_timestamp": AS_OF, "is_removed": False}
            | {column: group_row(name)[column] for column in ("group_id", "group_type", "state")}
        ],
        group_records=[
            {"offsets_partition": 0, "log_offset": 1, "log_timestamp": AS_OF, "group_id": name, "record_type": 2}
        ],
        offset_expiry=[expiry_row(name, topic=name)],
        open_transactions=[
            {"offsets_partition": 0, "producer_id": 1, "transactional_id": name, "open_since": AS_OF - DAY}
        ],
        pending_offsets=[{"offsets_partition": 0, "producer_id": 1, "group_id": name, "topic": "t", "log_offset": 2}],
        group_events=[
            event_row("offset_rewound", name, topic=name, offset_before=9, offset_after=4, cause="unknown"),
            event_row("group_removed", name, cause="expired"),
            event_row("group_type_changed", name, value_before="classic", value_after="consumer"),
        ],
        findings=[{"finding": "ghost_member", "severity": "error", "group_id": name, "detail": name}],
        group_traffic=[
            {"offsets_partition": 0, "group_id": name, "hour": AS_OF, "commits": 1, "tombstones": 0}
            | {"transactional_commits": 0, "other_records": 0, "bytes": 9}
        ],
        quarantine=[
            {"offsets_partition": 0, "log_offset": 1, "record_count": 1, "reason": "truncated", "detail": name}
            | {"coordinator_fails": True}
        ],
    )
