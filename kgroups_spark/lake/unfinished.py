"""Rows of audits that did not finish, and their removal.

First such audits are shut out, because one may still run somewhere, or its JVM may be about to commit. Then their rows
are deleted, by transactions of the audit that clears up (fence.py) and only up to its own number. RESTORE would not do:
VACUUM and OPTIMIZE raise a table's version too, and files of older versions may be gone.
"""

from __future__ import annotations

import re
from functools import partial

import pyarrow.compute as pc

from kgroups_spark.lake.claim import Claim
from kgroups_spark.lake.fence import Fence, first_change_of, until_nobody_interferes
from kgroups_spark.lake.lake import in_parallel
from kgroups_spark.lake.last_finished import APP_ID, REBUILD_APP_ID, UPKEEP_APP_ID
from kgroups_spark.lake.ledger import WAS_COMPLETE
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.layout import WORK_FOLDER
from kgroups_spark.tables.schemas import TABLES


def clear_up(claim: Claim) -> list[str]:
    """Restores history as the last finished audit left it; returns the names of tables that had more rows.

    Current tables may still have rows of an unfinished audit: the audit that clears up rewrites them.
    """
    if not claim.unfinished:
        return []
    fence = claim.fence
    shut_out(fence)
    complete = claim.ledger.abandon(fence, claim.unfinished_rows)
    claim.notes += [f"audit {number} did not finish, {WAS_COMPLETE}" for number in complete]
    cleared = remove_unfinished(fence, claim.before.audit_id if claim.before else 0)
    remove_work(fence)
    return cleared


def shut_out(fence: Fence) -> None:
    """Stops all earlier audits from committing to any table: Delta refuses transactions that are not newer."""
    fence.check_claim()
    in_parallel([partial(_shut_out_of, fence, name) for name in TABLES])


def _shut_out_of(fence: Fence, name: str) -> None:
    transactions = {UPKEEP_APP_ID: first_change_of(fence.audit_id)}
    if TABLES[name].kind != "ledger":
        transactions[APP_ID] = fence.audit_id - 1
    if TABLES[name].kind in ("history", "internal"):
        transactions[REBUILD_APP_ID] = fence.audit_id - 1
    by = f"kgroups-spark, shutting out audits before {fence.audit_id}"
    write = partial(fence.lake.table(name).shut_out, transactions, by=by)
    fence.lake.commit(name, "shut out", partial(until_nobody_interferes, write))


def remove_unfinished(fence: Fence, last_finished: int) -> list[str]:
    """Deletes the rows of audits between the last finished one (0: none has finished) and this one; returns the names
    of the tables that had such rows.

    Current tables are left alone, because the next audit rewrites them.
    """
    left_behind = [name for name, table in TABLES.items() if table.kind in ("history", "internal")]
    removed = [name for name in left_behind if _remove_between(fence, name, last_finished)]
    _unresolve(fence, last_finished)
    return removed


def remove_work(fence: Fence) -> None:
    """Deletes the work files of earlier audits, but not those of a later audit that has taken over."""
    fence.check_claim()
    lake = fence.lake
    for name in lake.store.names_in(f"{lake.uri}/{WORK_FOLDER}"):
        number = re.match(r"audit-(\d+)-", name)
        if number is None or int(number[1]) < fence.audit_id:
            lake.store.delete(f"{lake.uri}/{WORK_FOLDER}/{name}")


def _unresolve(fence: Fence, last_finished: int) -> None:
    """Resets `resolved_by` of quarantine's rows that an unfinished audit decoded again, because those rows are gone."""
    resolved_by = fence.lake.rows("quarantine", columns=["resolved_by"]).column("resolved_by")
    if (pc.max(resolved_by).as_py() or 0) <= last_finished:
        return
    unfinished = f"resolved_by > {last_finished} AND resolved_by < {fence.audit_id}"
    fence.sql("quarantine", "replace", f"UPDATE {{table}} SET resolved_by = NULL WHERE {unfinished}")


def _remove_between(fence: Fence, name: str, last_finished: int) -> bool:
    log = fence.lake.table(name)
    newest = [file.bound("maxValues", "audit_id") for file in log.files()]
    if all(audit_id is not None and audit_id <= last_finished for audit_id in newest):
        return False
    by = f"kgroups-spark audit {fence.audit_id}, deleting what came after audit {last_finished}"
    # Most files have rows of one audit and are removed unread. A file that OPTIMIZE mixed is rewritten.
    write = partial(log.commit, [], by=by, remove=partial(_lies_between, last_finished, fence.audit_id))
    fence.commit(name, "delete", lambda transaction: write(transaction=transaction))
    mixed = [file for file in log.files() if not _is_at_most(last_finished, file)]
    if mixed:
        unfinished = f"audit_id > {last_finished} AND audit_id < {fence.audit_id}"
        fence.sql(name, "delete", f"DELETE FROM {{table}} WHERE {unfinished}")
    return True


def _lies_between(last_finished: int, audit_id: int, file: TableFile) -> bool:
    oldest, newest = (file.bound(which, "audit_id") for which in ("minValues", "maxValues"))
    return oldest is not None and newest is not None and last_finished < oldest and newest < audit_id


def _is_at_most(last_finished: int, file: TableFile) -> bool:
    newest = file.bound("maxValues", "audit_id")
    return newest is not None and newest <= last_finished
