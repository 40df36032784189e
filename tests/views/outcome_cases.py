"""Cases of one committed offset after an audit had decided on it, each a partition of its own.

Audit 1 decided, having read to offset 100; audit 2 has read to 200. An offset of the log has the time of its number of
seconds after T0. The slot was committed at 50; `expires_at` is such a number, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from kgroups_spark.tables.schemas import arrow_schema
from tests.lake.table_rows import rows_of

T0 = datetime(2026, 11, 16, tzinfo=UTC)
READ_THEN, READ_NOW = 100, 200
SLOT = {"group_id": "g", "topic": "t", "partition": 0}
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def at(offset: int) -> datetime:
    return T0 + timedelta(seconds=offset)


class Seen(NamedTuple):
    """The view's expected row: outcome, the record that made it, and seconds from expires_at to the tombstone."""

    outcome: str
    log_offset: int | None = None
    after: int | None = None


class Record(NamedTuple):
    table: str
    columns: dict[str, Any]


def value(log_offset: int, **columns: Any) -> Record:
    return Record("offset_commits", {"log_offset": log_offset, "committed_offset": 1, **SLOT, **columns})


def tombstone(log_offset: int, **columns: Any) -> Record:
    return Record("offset_commits", {"log_offset": log_offset, **SLOT, **columns})


def pending(log_offset: int, **columns: Any) -> Record:
    """A value in a transaction of producer 7."""
    return value(log_offset, **PRODUCER, is_transactional=True, **columns)


def marker(log_offset: int, outcome: str | None, start: int | None, **columns: Any) -> Record:
    return Record(
        "transaction_markers",
        {"log_offset": log_offset, "outcome": outcome, "transaction_start_offset": start, **PRODUCER, **columns},
    )


@dataclass(frozen=True)
class Case:
    """`now`: the log offset that committed the slot as of audit 2; None: there is no committed offset."""

    name: str
    decision: str
    expires_at: int | None
    log: tuple[Record, ...]
    now: int | None
    expected: Seen | None


CASES = (
    Case("a tombstone", "expire", 90, (tombstone(150),), None, Seen("removed", 150, 60)),
    Case("a tombstone at the very moment", "expire", 150, (tombstone(150),), None, Seen("removed", 150, 0)),
    Case("a tombstone before its time", "expire", 151, (tombstone(150),), None, Seen("not_foreseen", 150)),
    Case("a tombstone without a time", "expire", 90, (tombstone(150, log_timestamp=None),), None, Seen("removed", 150)),
    Case("a value", "expire", 90, (value(150),), 150, Seen("kept_alive", 150)),
    Case("a value, then a tombstone", "expire", 90, (value(150), tombstone(160)), None, Seen("kept_alive", 150)),
    Case("a tombstone, then a value", "expire", 90, (tombstone(150), value(160)), 160, Seen("removed", 150, 60)),
    Case("nothing", "expire", 90, (), 50, Seen("still_there")),
    Case("gone without a trace", "expire", 90, (), None, Seen("removed")),
    Case(
        "another slot's tombstones",
        "expire",
        90,
        (tombstone(150, group_id="h"), tombstone(151, topic="u"), tombstone(152, partition=1)),
        50,
        Seen("still_there"),
    ),
    Case("what was read before", "expire", 90, (value(50), tombstone(40)), 50, Seen("still_there")),
    # A record in quarantine that the later audit decodes is nevertheless older than the decision.
    Case("an old record read late", "expire", 90, (tombstone(60, audit_id=2),), 50, Seen("still_there")),
    Case(
        "an old record read late, then a value",
        "expire",
        90,
        (tombstone(60, audit_id=2), value(150)),
        150,
        Seen("kept_alive", 150),
    ),
    # The Scala coordinator: a tombstone in a transaction takes only what is pending in it.
    Case(
        "a tombstone that left the committed offset where it was",
        "expire",
        90,
        (tombstone(150, **PRODUCER, is_transactional=True),),
        50,
        Seen("still_there"),
    ),
    Case("kept and gone after its time", "keep", 140, (tombstone(150),), None, Seen("removed", 150, 10)),
    Case("kept and gone before its time", "keep", 160, (tombstone(150),), None, Seen("not_foreseen", 150)),
    Case("kept and gone without a time to go", "keep", None, (tombstone(150),), None, Seen("not_foreseen", 150)),
    Case("kept and gone without a trace after its time", "keep", 140, (), None, Seen("removed")),
    Case("kept and gone without a trace, too early", "keep", 250, (), None, Seen("not_foreseen")),
    Case("kept and there", "keep", 140, (), 50, None),
    Case("kept and committed again", "keep", 140, (value(150), tombstone(160)), None, None),
    Case(
        "a transaction that committed",
        "expire",
        90,
        (pending(150, outcome="committed", marker_offset=155), marker(155, "committed", 150)),
        150,
        Seen("kept_alive", 150),
    ),
    Case(
        "a transaction that aborted",
        "expire",
        90,
        (pending(150, outcome="aborted", marker_offset=155), marker(155, "aborted", 150)),
        50,
        Seen("still_there"),
    ),
    Case("a transaction that is open", "expire", 90, (pending(150),), 50, Seen("still_there")),
    Case(
        "a marker of neither kind",
        "expire",
        90,
        (pending(150), marker(155, None, None)),
        50,
        Seen("still_there"),
    ),
    # Values and marker of one transaction may have been read in different ranges: the row then has no outcome.
    Case(
        "a transaction read in two ranges",
        "expire",
        90,
        (pending(150), marker(155, "committed", 150)),
        150,
        Seen("kept_alive", 150),
    ),
    Case(
        "a transaction that was open when it was decided",
        "expire",
        90,
        (pending(80), marker(155, "committed", 80)),
        80,
        Seen("kept_alive", 80),
    ),
    Case(
        "a marker that brings an older record than the committed one",
        "expire",
        90,
        (pending(45), marker(155, "committed", 45)),
        50,
        Seen("still_there"),
    ),
    Case(
        "an older record's marker, then a tombstone",
        "expire",
        90,
        (pending(45), marker(155, "committed", 45), tombstone(160)),
        None,
        Seen("removed", 160, 70),
    ),
    Case(
        "a tombstone before the marker takes what was pending with it",
        "expire",
        90,
        (pending(80), tombstone(150), marker(155, "committed", 80)),
        None,
        Seen("removed", 150, 60),
    ),
    Case(
        "a value before the marker is what came first",
        "expire",
        90,
        (pending(140, outcome="committed", marker_offset=155), value(150), marker(155, "committed", 140)),
        150,
        Seen("kept_alive", 150),
    ),
    Case(
        "a tombstone in a transaction counts where it stands, whatever becomes of that",
        "expire",
        90,
        (
            tombstone(150, **PRODUCER, is_transactional=True, outcome="aborted", marker_offset=155),
            marker(155, "aborted", 150),
        ),
        None,
        Seen("removed", 150, 60),
    ),
    Case(
        "a value of a producer outside a transaction commits nothing",
        "expire",
        90,
        (value(150, **PRODUCER),),
        50,
        Seen("still_there"),
    ),
    Case(
        "another producer's marker",
        "expire",
        90,
        (pending(150), marker(155, "committed", 150, producer_id=8)),
        50,
        Seen("still_there"),
    ),
    Case(
        "the transaction after the open one",
        "expire",
        90,
        (pending(80), marker(90, "aborted", 80), pending(150), marker(155, "committed", 150), tombstone(156)),
        None,
        Seen("kept_alive", 150),
    ),
)


def tables_of(cases: tuple[Case, ...]) -> dict[str, pa.Table]:
    """The tables of a lake in which each case is the offsets partition of its number: one group in many partitions."""
    rows: dict[str, list[dict[str, Any]]] = {"previous_offset_expiry": [], "committed_offsets": []}
    for partition, case in enumerate(cases):
        where = {"offsets_partition": partition}
        times = {"expires_at": None if case.expires_at is None else at(case.expires_at), "as_of": at(READ_THEN)}
        decided = {
            "audit_id": 2,
            "decided_by": 1,
            "log_offset": 50,
            "committed_offset": 5,
            "reason": "as then",
        }
        rows["previous_offset_expiry"].append({**where, **SLOT, **decided, **times, "decision": case.decision})
        if case.now is not None:
            rows["committed_offsets"].append({**where, **SLOT, "audit_id": 2, "log_offset": case.now})
        for record in case.log:
            offset = record.columns["log_offset"]
            read = {"audit_id": 1 if offset < READ_THEN else 2, "log_timestamp": at(offset)}
            rows.setdefault(record.table, []).append({**where, **read, **record.columns})
    rows["audits"] = [_finished(audit_id, end, len(cases)) for audit_id, end in ((1, READ_THEN), (2, READ_NOW))]
    return {name: rows_of(name, *given) if given else arrow_schema(name).empty_table() for name, given in rows.items()}


def _finished(audit_id: int, end_offset: int, partitions: int) -> dict[str, Any]:
    read = [
        {"offsets_partition": p, "start_offset": end_offset - 100, "end_offset": end_offset} for p in range(partitions)
    ]
    return {"audit_id": audit_id, "status": "finished", "as_of": at(end_offset), "partitions": read}


def expected_rows(cases: tuple[Case, ...]) -> list[dict[str, Any]]:
    """The rows that the view should have, its columns from offsets_partition to removed_after_ms."""
    return [
        {
            "offsets_partition": partition,
            "decision": case.decision,
            "outcome": seen.outcome,
            "outcome_log_offset": seen.log_offset,
            "removed_after_ms": None if seen.after is None else seen.after * 1000,
        }
        for partition, case in enumerate(cases)
        if (seen := case.expected) is not None
    ]
