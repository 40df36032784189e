"""The last finished audit, whose tables a reader sees, from the ledger and the tables' logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.conditions import Condition

File = TypeVar("File")

# Values of the ledger's column `status`.
RUNNING = "running"
FINISHED = "finished"
ABANDONED = "abandoned"
# In the order in which an audit may get them; its last status counts.
STATUSES = (RUNNING, ABANDONED, FINISHED)

IS_FINISHED = Condition("status", "==", FINISHED)
# The value of its column `source` for an audit that reads no log.
TABLES_ALONE = "tables"

# Under this application id each table's log has the newest audit that wrote to it.
APP_ID = "kgroups-audit"
# Rows that an audit rebuilds from history have their own id, because the same audit then appends to the same tables.
REBUILD_APP_ID = "kgroups-rebuild"
# All application ids that write rows under the number of an audit.
APP_IDS = (APP_ID, REBUILD_APP_ID)
# In the ledger's log: twice the number of its newest audit, and 1 more if that audit has finished.
LEDGER_APP_ID = "kgroups-ledger"
# For changes to rows of other audits (fence.py), and in the ledger for heartbeats.
UPKEEP_APP_ID = "kgroups-upkeep"
HEARTBEAT_APP_ID = "kgroups-heartbeat"


def newest_audit(last_transaction: Callable[[str], int | None]) -> int:
    """The number of the newest audit that has written to a table (0: none). `last_transaction`: an application id ->
    the number that the table's log last had under it; None: never."""
    return max(last_transaction(app_id) or 0 for app_id in APP_IDS)


def since_last_finished(
    files: Iterable[File], newest_audit: Callable[[File], float], finished_in: Callable[[File], Iterable[int]]
) -> tuple[int, list[File]]:
    """The number of the last finished audit (0: none has finished), and the ledger's files that may have rows of it or
    of later audits. No other file is opened, whatever the number of audits.

    `newest_audit`: the greatest number in a file by its statistics (inf: unknown). `finished_in`: opens a file and
    returns the numbers of finished audits in it. Numbers only rise, so files are opened from the newest down to the one
    with the last finished audit.
    """
    opened: list[File] = []
    last = 0
    for file in sorted(files, key=newest_audit, reverse=True):
        if newest_audit(file) < last:
            break
        opened.append(file)
        last = max([last, *finished_in(file)])
    return last, opened


def is_of_log(entries: pa.StructArray, topic: str | None = None) -> pa.Array:
    """A mask of the entries of `partitions` that are about that log; None: __consumer_offsets."""
    topics = pc.struct_field(entries, "topic")
    return pc.is_null(topics) if topic is None else pc.equal(topics, topic)


# A search back through the ledger begins with FIRST_LOOK audits. Each further lot is FURTHER_LOOK times as large, up to
# a limit: with 200 partitions about 12 MB of columns.
FIRST_LOOK = 1
FURTHER_LOOK = 8
AUDITS_AT_ONCE = 512


def lots_backwards(ledger_rows: Callable[..., pa.Table], columns: Sequence[str], newest: int) -> Iterator[pa.Table]:
    """audit_id and these columns of finished audits, audit `newest` first, in growing lots: a search for one of the
    newest reads few rows, and a search through all needs few reads.

    `ledger_rows`: rows of `audits`, by the arguments `columns` and `conditions`.
    """
    upper, width = newest, FIRST_LOOK
    while upper > 0:
        span = [Condition("audit_id", ">=", upper - width + 1), Condition("audit_id", "<=", upper)]
        rows = ledger_rows(columns=["audit_id", *columns], conditions=[IS_FINISHED, *span])
        yield rows.sort_by([("audit_id", "descending")])
        upper, width = upper - width, min(width * FURTHER_LOOK, AUDITS_AT_ONCE)


def finished_backwards(
    ledger_rows: Callable[..., pa.Table], columns: Sequence[str], newest: int
) -> Iterator[dict[str, Any]]:
    """The rows of `lots_backwards`, one by one; the caller stops when it has found its row."""
    for rows in lots_backwards(ledger_rows, columns, newest):
        for index in range(rows.num_rows):
            yield from rows.slice(index, 1).to_pylist(maps_as_pydicts="strict")


def version_gone(table_path: str, audit_id: int) -> KgroupsError:
    """The error of readers if the table's version of that audit is no longer readable.

    Our tables have `delta.enableExpiredLogCleanup=false` to prevent that (log_files.py). If an older lake does not have
    that property yet, or a user has removed it, Spark's Delta writer deletes, at a checkpoint, all earlier versions
    that are older than 30 days. If that commit was an unfinished audit's, and the table had no other commit for 30
    days, the audit's version is deleted, too; its data files are not.
    """
    name = table_path.rstrip("/").rpartition("/")[2]
    return KgroupsError(
        f"table {name}: the version of audit {audit_id} is no longer in the table's log, because an unfinished audit "
        "wrote a checkpoint: run kgroups audit"
    )
