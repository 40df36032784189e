"""Rows of audits that did not finish, and their removal.

First such audits are shut out, because one may still run somewhere, or its JVM may be about to commit. Then their rows
are deleted, by transactions of the audit that clears up (fence.py) and only up to its own number. RESTORE would not do:
VACUUM and OPTIMIZE raise a table's version too, and files of older versions may be gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.claim import Claim
from kgroups_spark.lake.fence import Fence, Transaction, first_change_of, until_nobody_interferes
from kgroups_spark.lake.lake import in_parallel
from kgroups_spark.lake.last_finished import APP_ID, REBUILD_APP_ID, UPKEEP_APP_ID
from kgroups_spark.lake.ledger import WAS_COMPLETE
from kgroups_spark.lake.store import TableFile
from kgroups_spark.tables.layout import WORK_FOLDER
from kgroups_spark.tables.schemas import TABLES, arrow_schema


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
    name, number = "quarantine", arrow_schema("quarantine").get_field_index("resolved_by")
    resolved_by = fence.lake.rows(name, columns=["resolved_by"]).column("resolved_by")
    if (pc.max(resolved_by).as_py() or 0) <= last_finished:
        return

    def unresolved(file: TableFile) -> Iterator[pa.RecordBatch]:
        for batch in fence.lake.dataset(name, [file.path]).to_batches():
            numbers = batch.column("resolved_by")
            is_gone = pc.and_(pc.greater(numbers, last_finished), pc.less(numbers, fence.audit_id))
            left = pc.if_else(is_gone, pa.scalar(None, numbers.type), numbers)
            yield batch.set_column(number, batch.schema.field(number), left)

    _rewrite(fence, name, "replace", "unresolving", lambda file: True, unresolved)


def _remove_between(fence: Fence, name: str, last_finished: int) -> bool:
    """Most files have rows of one audit and are removed unread. A file that OPTIMIZE mixed is rewritten."""
    audit_id = pc.field("audit_id")
    stays = (audit_id <= last_finished) | (audit_id >= fence.audit_id)

    def rows_left(file: TableFile) -> Iterable[pa.RecordBatch]:
        if _lies_between(last_finished, fence.audit_id, file):
            return ()
        batches: Iterable[pa.RecordBatch] = fence.lake.dataset(name, [file.path]).to_batches(filter=stays)
        return batches

    if all(_is_at_most(last_finished, file) for file in fence.lake.table(name).files()):
        return False
    what = f"deleting what came after audit {last_finished}"
    _rewrite(fence, name, "delete", what, lambda file: not _is_at_most(last_finished, file), rows_left)
    return True


def _rewrite(
    fence: Fence,
    name: str,
    operation: str,
    what: str,
    is_chosen: Callable[[TableFile], bool],
    rows_left: Callable[[TableFile], Iterable[pa.RecordBatch]],
) -> None:
    """Replaces each of the chosen files by the rows that are left of it, in one commit."""
    lake, log, by = fence.lake, fence.lake.table(name), f"kgroups-spark audit {fence.audit_id}, {what}"

    def write(transaction: Transaction) -> None:
        files = {file.path: file for file in log.files() if is_chosen(file)}
        written = [lake.write(name, rows_left(file), fence.audit_id) for file in files.values()]
        parts = [part for part in written if part is not None]
        log.commit(parts, by=by, transaction=transaction, remove=lambda file: file.path in files, removes=len(files))

    fence.commit(name, operation, write)


def _lies_between(last_finished: int, audit_id: int, file: TableFile) -> bool:
    oldest, newest = (file.bound(which, "audit_id") for which in ("minValues", "maxValues"))
    return oldest is not None and newest is not None and last_finished < oldest and newest < audit_id


def _is_at_most(last_finished: int, file: TableFile) -> bool:
    newest = file.bound("maxValues", "audit_id")
    return newest is not None and newest <= last_finished
