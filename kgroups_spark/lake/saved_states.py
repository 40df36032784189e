"""Saved states in their tables: which files and rows are the state that one audit left.

An audit writes the states of its shards into files of their own, and the statistics of these say whose they are. Others
may have rewritten them since: OPTIMIZE and auto compaction join the states of two audits, or a night's state and
corrections. There the rows decide.
"""

from __future__ import annotations

import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.conditions import Condition, all_may_hold
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS


def rows_of_state(table: str, audit_id: int) -> list[Condition]:
    """The conditions that the rows of an audit's state meet."""
    return [*_of_nights(table), Condition("audit_id", "==", audit_id)]


def newest_state(lake: Lake, table: str, audit_id: int) -> int | None:
    """The newest audit, up to this one, whose state a table has; None: it has none."""
    conditions = [*_of_nights(table), Condition("audit_id", "<=", audit_id)]
    files = [file for file in lake.table(table).files() if all_may_hold(conditions, file.bound)]
    if all(_is_of_one(file, each.column) for file in files for each in conditions):
        return max((file.bound("minValues", "audit_id") for file in files), default=None)
    wrote = lake.rows(table, files=files, columns=["audit_id"], conditions=conditions)["audit_id"]
    newest: int | None = pc.max(wrote).as_py()
    return newest


def is_of_night(file: TableFile) -> bool:
    """Whether a file of checkpoints holds states of nights and nothing else."""
    return _is_of_one(file, "reason") and file.bound("minValues", "reason") == NIGHT


def may_be_of(audit_id: int, file: TableFile) -> bool:
    """Whether a file may hold rows of an audit."""
    return all_may_hold([Condition("audit_id", "==", audit_id)], file.bound)


def _of_nights(table: str) -> list[Condition]:
    """Other tables of states have those of nights alone."""
    return [Condition("reason", "==", NIGHT)] if table == CHECKPOINTS else []


def _is_of_one(file: TableFile, column: str) -> bool:
    least, greatest = (file.bound(which, column) for which in ("minValues", "maxValues"))
    return least is not None and least == greatest
