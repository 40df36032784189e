"""What audits that did not finish left behind, and how it goes.

Not by RESTORE: VACUUM and OPTIMIZE raise a table's version too, and files of older versions may be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kgroups_spark.tables.kernel import TableFile
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.writer import until_nobody_interferes


def remove_unfinished(lake: Lake, last_finished: int, check_claim: Callable[[], None]) -> list[str]:
    """Deletes the rows of audits after the last finished one (0: none has); the names of the tables that had some.

    Tables of now need nothing: the next audit rewrites them.
    """
    left_behind = [name for name, table in TABLES.items() if table.kind in ("history", "internal")]
    return [name for name in left_behind if _remove_above(lake, name, last_finished, check_claim)]


def _remove_above(lake: Lake, name: str, last_finished: int, check_claim: Callable[[], None]) -> bool:
    log = lake.table(name)
    newest = [file.bound("maxValues", "audit_id") for file in log.files()]
    if all(audit_id is not None and audit_id <= last_finished for audit_id in newest):
        return False
    check_claim()
    by = f"kgroups-spark, deleting what came after audit {last_finished}"
    # Most files hold rows of one audit: they go without being read. What OPTIMIZE mixed is rewritten.
    write = partial(log.commit, [], by=by, transaction=None, remove=partial(_is_above, last_finished))
    lake.commit(name, "delete", partial(until_nobody_interferes, write))
    mixed = [file for file in log.files() if not _is_at_most(last_finished, file)]
    if mixed:
        delete = f"DELETE FROM {lake.identifier(name)} WHERE audit_id > {last_finished}"
        lake.commit(name, "delete", lambda: lake.spark.sql(delete))
    return True


def _is_above(last_finished: int, file: TableFile) -> bool:
    oldest = file.bound("minValues", "audit_id")
    return oldest is not None and oldest > last_finished


def _is_at_most(last_finished: int, file: TableFile) -> bool:
    newest = file.bound("maxValues", "audit_id")
    return newest is not None and newest <= last_finished
