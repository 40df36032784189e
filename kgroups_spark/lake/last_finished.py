"""Which audit's tables a reader sees: the last finished one's. The ledger and the tables' logs tell which."""

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
# In the order in which an audit may get them; the last one counts.
STATUSES = (RUNNING, ABANDONED, FINISHED)

IS_FINISHED = Condition("status", "==", FINISHED)

# Under this name each table's log remembers the newest audit that wrote it.
APP_ID = "kgroups-audit"
# Rows that an audit rebuilds from history have their own: the same audit then appends to the same tables.
REBUILD_APP_ID = "kgroups-rebuild"
# Everything that writes rows under the number of an audit.
APP_IDS = (APP_ID, REBUILD_APP_ID)
# Under this name it remembers who changed what others wrote (fence.py), of the ledger also who was heard of last.
UPKEEP_APP_ID = "kgroups-upkeep"
HEARTBEAT_APP_ID = "kgroups-heartbeat"


def since_last_finished(
    files: Iterable[File], newest_audit: Callable[[File], float], finished_in: Callable[[File], Iterable[int]]
) -> tuple[int, list[File]]:
    """The number of the last finished audit (0: none has), and the ledger's files that may have rows of it or of later
    ones. No other file is opened, however many audits there were.

    `newest_audit`: the greatest number in a file as its statistics say (inf: unknown); `finished_in`: the numbers of
    finished audits in it, for which it is opened. Numbers only rise, so that files are opened from the newest down to
    the one that holds the last finished audit.
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
    """Chooses the entries of `partitions` that are of that log; None: of __consumer_offsets."""
    topics = pc.struct_field(entries, "topic")
    return pc.is_null(topics) if topic is None else pc.equal(topics, topic)


# Going back through the ledger, so many audits are looked at first, then always as many times more, up to a lot whose
# entries are columns at once: of 200 partitions about 12 MB.
FIRST_LOOK = 1
FURTHER_LOOK = 8
AUDITS_AT_ONCE = 512


def lots_backwards(ledger_rows: Callable[..., pa.Table], columns: Sequence[str], newest: int) -> Iterator[pa.Table]:
    """audit_id and these columns of finished audits, audit `newest` first, in lots that grow: who looks for one of the
    newest asks for few rows, who goes through all asks few questions.

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
    """The rows of `lots_backwards`; who asks stops when he has found what he looked for."""
    for rows in lots_backwards(ledger_rows, columns, newest):
        for index in range(rows.num_rows):
            yield from rows.slice(index, 1).to_pylist(maps_as_pydicts="strict")


def version_gone(table_path: str, audit_id: int) -> KgroupsError:
    """The error of readers where the version that the audit left cannot be read any more.

    Our tables have `delta.enableExpiredLogCleanup=false` against it (log_files.py). Where an older lake does not have
    that property yet, or somebody has removed it, Spark's Delta writer deletes at a checkpoint the versions before it
    that are older than 30 days. If the commit was an unfinished audit's, and the table had none for so long, the
    version goes with them; its files do not.
    """
    name = table_path.rstrip("/").rpartition("/")[2]
    return KgroupsError(
        f"table {name}: the version of audit {audit_id} is no longer in the table's log, because an unfinished audit "
        "wrote a checkpoint: run kgroups audit"
    )
