"""The logs of unstable_periods.txt: each case is an offsets partition of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tests.lake.table_rows import rows_of
from tests.views.outcome_cases import Record, at, lines_of, records

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


def _period(text: str) -> Period:
    places, _, ended_by = text.strip().partition(" ")
    start, _, end = places.partition("-")
    return Period(int(start), int(end) if end else None, ended_by or None)


CASES = tuple(
    Case(name, records(log), tuple(map(_period, periods.split(","))))
    for name, log, periods in lines_of("unstable_periods.txt")
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
