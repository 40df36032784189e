"""Audits that `maintain --keep` has removed from the ledger, with their findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from kgroups_spark.lake.last_finished import IS_FINISHED
from kgroups_spark.tables.conditions import Condition


class Removal(NamedTuple):
    """Audits up to `up_to` were removed by the maintenance with the number `by`."""

    up_to: int
    by: int


def removals(table_rows: Callable[..., pa.Table]) -> list[Removal]:
    """The removals, in no order. `table_rows`: LakeReader.table_rows."""
    removed = [IS_FINISHED, Condition("removed_up_to", "is not null")]
    rows = table_rows("audits", ["removed_up_to", "audit_id"], removed)
    return [Removal(row["removed_up_to"], row["audit_id"]) for row in rows.to_pylist()]


def removal_of(removals: list[Removal], audit_id: int) -> Removal | None:
    """The maintenance that removed that audit; None: no known one did."""
    return min((each for each in removals if each.up_to >= audit_id), key=lambda each: each.by, default=None)
