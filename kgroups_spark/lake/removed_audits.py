"""The ledger's notes on audits that `maintain --keep` has removed, and how commands read these notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kgroups_spark.lake.last_finished import IS_FINISHED, TABLES_ALONE
from kgroups_spark.tables.conditions import Condition

_NOTE = "audits up to {}: findings are gone, and of the ledger what nobody asks any more (--keep)"
_NUMBER = re.compile(re.escape(_NOTE).replace(r"\{\}", r"(\d+)"))


class Removal(NamedTuple):
    """Audits up to `up_to` were removed by the maintenance with the number `by`."""

    up_to: int
    by: int


def removal_note(up_to: int) -> str:
    """The ledger's note on the removal of audits up to `up_to`."""
    return _NOTE.format(up_to)


def removed_up_to(notes: Sequence[str] | None) -> int:
    """The number in the notes of a maintenance; 0: it removed no audit."""
    found = [_NUMBER.fullmatch(note) for note in notes or ()]
    return max((int(each[1]) for each in found if each), default=0)


def removal_of(maintenances: Iterable[Mapping[str, Any]], audit_id: int) -> Removal | None:
    """The maintenance that removed that audit, from rows of the ledger with audit_id and notes; None: no known one
    did."""
    removals = [Removal(removed_up_to(row["notes"]), row["audit_id"]) for row in maintenances]
    return min((each for each in removals if each.up_to >= audit_id), key=lambda each: each.by, default=None)


def maintenances(table_rows: Callable[..., pa.Table]) -> list[dict[str, Any]]:
    """audit_id and notes of finished audits that read no log. `table_rows`: LakeReader.table_rows."""
    of_tables = [IS_FINISHED, Condition("source", "==", TABLES_ALONE)]
    rows: list[dict[str, Any]] = table_rows("audits", ["audit_id", "notes"], of_tables).to_pylist()
    return rows
