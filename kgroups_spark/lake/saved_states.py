"""The files and rows of the state that one audit saved.

An audit writes the states of its shards into separate files, and the files' statistics name the audit. Another program
may have rewritten them since: OPTIMIZE and auto compaction merge the states of two audits, or a night's state and
corrections. Then the rows decide.
"""

from __future__ import annotations

import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition, all_may_hold
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS


def rows_of_state(table: str, audit_id: int) -> list[Condition]:
    return [*_of_nights(table), Condition("audit_id", "==", audit_id)]


def newest_state(lake: Lake, table: str, audit_id: int) -> int | None:
    """The newest audit, up to this one, with a state in the table; None: there is none."""
    conditions = [*_of_nights(table), Condition("audit_id", "<=", audit_id)]
    files = [file for file in lake.table(table).files() if all_may_hold(conditions, file.bound)]
    if all(_is_of_one(file, each.column) for file in files for each in conditions):
        return max((file.bound("minValues", "audit_id") for file in files), default=None)
    wrote = lake.rows(table, files=files, columns=["audit_id"], conditions=conditions)["audit_id"]
    newest: int | None = pc.max(wrote).as_py()
    return newest


def is_of_night(file: TableFile) -> bool:
    """Whether a file of checkpoints has only states of nights."""
    return _is_of_one(file, "reason") and file.bound("minValues", "reason") == NIGHT


def may_be_of(audit_id: int, file: TableFile) -> bool:
    return all_may_hold([Condition("audit_id", "==", audit_id)], file.bound)


def _of_nights(table: str) -> list[Condition]:
    """The condition for states of nights; empty for other tables of states, which have nothing else."""
    return [Condition("reason", "==", NIGHT)] if table == CHECKPOINTS else []


def _is_of_one(file: TableFile, column: str) -> bool:
    least, greatest = (file.bound(which, column) for which in ("minValues", "maxValues"))
    return least is not None and least == greatest
