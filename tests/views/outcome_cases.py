"""The cases of expiry_outcomes.txt, each a partition of its own; and records of one slot as texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
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


def record(text: str) -> Record:
    """A record from its text, as in expiry_outcomes.txt; "still_pending 12 10" as in offset_history.txt."""
    kind, *words = text.split()
    more = {name: json.loads(value) for name, _, value in (word.partition("=") for word in words) if value}
    if "transactional" in words or kind == "pending":
        more = {**PRODUCER, "is_transactional": True, **more}
    log_offset, *given = (None if word == "null" else word for word in words if "=" not in word)
    place = {"log_offset": int(log_offset or 0)}
    if kind == "marker":
        outcome, start = given
        ended = {"outcome": outcome, "transaction_start_offset": None if start is None else int(start)}
        return Record("transaction_markers", {**place, **ended, **PRODUCER, **more})
    if kind == "still_pending":
        held = [["g", "t", 0, int(each or 0), 1, 0, 5] for each in given]
        payload = json.dumps({"producer_id": 7, "transaction": None, "pending": held})
        return Record("checkpoints", {**place, "reason": "reread", "entry_type": "producer", "payload": payload})
    assert kind in ("value", "pending", "tombstone"), text
    return Record(
        "offset_commits", {**place, **({} if kind == "tombstone" else {"committed_offset": 1}), **SLOT, **more}
    )


def records(text: str) -> tuple[Record, ...]:
    return tuple(record(each) for each in text.split(";") if each.strip())


def lines_of(name: str) -> list[list[str]]:
    """The cells of a file's lines."""
    _, _, lines = (Path(__file__).parent / name).read_text().partition("\n\n")
    return [
        [cell.strip() for cell in line.split("|")] for line in lines.splitlines() if " |" in line and line[0] != "#"
    ]


@dataclass(frozen=True)
class Case:
    """`now`: the log offset that committed the slot as of audit 2; None: there is no committed offset."""

    name: str
    decision: str
    expires_at: int | None
    log: tuple[Record, ...]
    now: int | None
    expected: Seen | None


def _case(name: str, decided: str, log: str, now: str, expected: str) -> Case:
    decision, expires_at = decided.split()
    outcome, *numbers = expected.split() or [""]
    seen = Seen(outcome, *map(int, numbers)) if outcome else None
    return Case(name, decision, json.loads(expires_at), records(log), int(now) if now else None, seen)


CASES = tuple(_case(*cells) for cells in lines_of("expiry_outcomes.txt"))


def tables_of(cases: tuple[Case, ...]) -> dict[str, pa.Table]:
    """The tables of a lake in which each case is the offsets partition of its number: one group in many partitions."""
    rows: dict[str, list[dict[str, Any]]] = {"previous_offset_expiry": [], "committed_offsets": []}
    for partition, case in enumerate(cases):
        where = {"offsets_partition": partition}
        times = {"expires_at": None if case.expires_at is None else at(case.expires_at), "as_of": at(READ_THEN)}
        decided = {"audit_id": 2, "decided_by": 1, "log_offset": 50, "committed_offset": 5, "reason": "as then"}
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
