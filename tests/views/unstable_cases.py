"""Logs made by hand, and when their offsets were pending: each case is an offsets partition of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tests.lake.table_rows import rows_of
from tests.views.outcome_cases import Record, at, marker, pending, tombstone, value

Row = dict[str, Any]


class Period(NamedTuple):
    """From one log offset to another (None: it has no end), and what ended it."""

    start: int
    end: int | None = None
    ended_by: str | None = None


@dataclass(frozen=True)
class Case:
    """A log, in which a record has the time of its log offset, and the periods of the slot of outcome_cases."""

    name: str
    log: tuple[Record, ...]
    periods: tuple[Period, ...]


EIGHT = {"producer_id": 8}


def pending_of_8(log_offset: int) -> Record:
    return value(log_offset, **EIGHT, is_transactional=True)


# Producer 7's pending values without what another range would have said of them.
CASES = (
    Case("until it is committed", (pending(10), marker(15, "committed", 10)), (Period(10, 15, "committed"),)),
    Case("until it is aborted", (pending(10), marker(15, "aborted", 10)), (Period(10, 15, "aborted"),)),
    Case(
        "as the row itself says",
        (pending(10, outcome="aborted", marker_offset=15), marker(15, "aborted", 10)),
        (Period(10, 15, "aborted"),),
    ),
    Case("still", (pending(10),), (Period(10),)),
    Case("a marker of neither kind", (pending(10), marker(15, None, None)), (Period(10),)),
    Case("another producer's marker", (pending(10), marker(15, "committed", 10, **EIGHT)), (Period(10),)),
    Case(
        "a tombstone removes what is pending, and its marker says no more of it",
        (pending(10), tombstone(12), marker(15, "committed", 10)),
        (Period(10, 12, "tombstone"),),
    ),
    Case(
        "so does one in a transaction of somebody else that is never ended",
        (pending(10), tombstone(12, **EIGHT, is_transactional=True)),
        (Period(10, 12, "tombstone"),),
    ),
    Case(
        "a tombstone before it, and one of another offset, do not",
        (tombstone(5), pending(10), tombstone(12, partition=1), tombstone(13, topic="u"), tombstone(14, group_id="h")),
        (Period(10),),
    ),
    Case(
        "several values of one transaction",
        (pending(10), pending(12), marker(15, "committed", 10)),
        (Period(10, 15, "committed"),),
    ),
    Case(
        "one transaction after the other",
        (pending(10), marker(15, "committed", 10), pending(16), marker(20, "aborted", 16)),
        (Period(10, 15, "committed"), Period(16, 20, "aborted")),
    ),
    Case(
        "transactions of two producers that overlap",
        (
            pending(10),
            pending_of_8(12),
            marker(15, "aborted", 10),
            pending(16),
            marker(18, "aborted", 12, **EIGHT),
            marker(20, "committed", 16),
        ),
        (Period(10, 20, "committed"),),
    ),
    Case(
        "one within the other, which does not end",
        (pending(10), pending_of_8(12), marker(15, "committed", 12, **EIGHT)),
        (Period(10),),
    ),
    Case(
        "one that began within the other and was removed with it",
        (pending(10), pending_of_8(12), tombstone(14), pending(16), marker(18, "committed", 10)),
        (Period(10, 14, "tombstone"), Period(16, 18, "committed")),
    ),
    Case(
        "a value without a producer is stable, and makes nothing else stable",
        (value(9), pending(10), value(12), marker(15, "committed", 10), value(16)),
        (Period(10, 15, "committed"),),
    ),
    # T28: Java calls it pending, whatever its transactional bit says.
    Case("a value of a producer outside a transaction", (value(10, producer_id=7),), (Period(10),)),
    Case(
        "which that producer's next marker ends",
        (value(10, producer_id=7), pending(12), marker(15, "committed", 12)),
        (Period(10, 15, "committed"),),
    ),
    Case(
        "a partition that was read again no longer held it",
        (
            pending(10),
            Record(
                "checkpoints",
                {
                    "log_offset": 20,
                    "reason": "reread",
                    "entry_type": "producer",
                    "payload": '{"producer_id": 7, "pending": []}',
                },
            ),
        ),
        (Period(10, 20, "not_in_log"),),
    ),
)


def tables_of_cases() -> dict[str, pa.Table]:
    """The tables of a lake in which each case is the offsets partition of its number."""
    rows: dict[str, list[Row]] = {}
    for number, case in enumerate(CASES):
        for record in case.log:
            place = {"offsets_partition": number, "log_timestamp": at(record.columns["log_offset"])}
            if record.table == "checkpoints":
                del place["log_timestamp"]
            rows.setdefault(record.table, []).append({**place, **record.columns})
    return {name: rows_of(name, *its) for name, its in rows.items()}
