"""What audits that did not finish left behind, and how it goes.

First they are shut out: one that was given up may still run somewhere, or its JVM be about to commit. Then their rows
are deleted. Not by RESTORE: VACUUM and OPTIMIZE raise a table's version too, and files of older versions may be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow.compute as pc

from kgroups_spark.tables.claim import Claim
from kgroups_spark.tables.kernel import AlreadyWritten, TableFile
from kgroups_spark.tables.lake import WORK_FOLDER, Lake, in_parallel
from kgroups_spark.tables.last_finished import APP_ID, REBUILD_APP_ID
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tables.writer import until_nobody_interferes


def clear_up(lake: Lake, claim: Claim) -> list[str]:
    """Makes the lake, under a new claim, what the last finished audit left; the names of the tables that had more.

    Tables of now may still hold what an unfinished audit wrote: who has cleared up rewrites them.
    """
    if not claim.unfinished:
        return []
    shut_out(lake, claim.unfinished[-1], claim.check)
    cleared = remove_unfinished(lake, claim.before.audit_id if claim.before else 0, claim.check)
    lake.kernel.delete(f"{lake.uri}/{WORK_FOLDER}")
    return cleared


def shut_out(lake: Lake, audit_id: int, check_claim: Callable[[], None]) -> None:
    """Lets no audit up to this number commit to any table any more: Delta refuses transactions that are not newer."""
    check_claim()
    tables = [(name, APP_ID) for name, table in TABLES.items() if table.kind != "ledger"]
    tables += [(name, REBUILD_APP_ID) for name, table in TABLES.items() if table.kind in ("history", "internal")]
    in_parallel([partial(_shut_out_of, lake, name, app_id, audit_id) for name, app_id in tables])


def _shut_out_of(lake: Lake, name: str, app_id: str, audit_id: int) -> None:
    log = lake.table(name)
    if (log.last_transaction(app_id) or 0) >= audit_id:
        return
    by = f"kgroups-spark, shutting out audits up to {audit_id}"
    write = partial(log.commit, [], by=by, transaction=(app_id, audit_id))
    with suppress(AlreadyWritten):  # its own last commit has just done the same
        lake.commit(name, "shut out", write)


def remove_unfinished(lake: Lake, last_finished: int, check_claim: Callable[[], None]) -> list[str]:
    """Deletes the rows of audits after the last finished one (0: none has); the names of the tables that had some.

    Tables of now need nothing: the next audit rewrites them.
    """
    left_behind = [name for name, table in TABLES.items() if table.kind in ("history", "internal")]
    removed = [name for name in left_behind if _remove_above(lake, name, last_finished, check_claim)]
    _unresolve(lake, last_finished, check_claim)
    return removed


def _unresolve(lake: Lake, last_finished: int, check_claim: Callable[[], None]) -> None:
    """Rows of quarantine that an unfinished audit decoded again are unresolved: what it made of them has gone."""
    resolved_by = lake.rows("quarantine", columns=["resolved_by"]).column("resolved_by")
    if (pc.max(resolved_by).as_py() or 0) <= last_finished:
        return
    check_claim()
    update = f"UPDATE {lake.identifier('quarantine')} SET resolved_by = NULL WHERE resolved_by > {last_finished}"
    lake.commit("quarantine", "replace", lambda: lake.spark.sql(update))


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
