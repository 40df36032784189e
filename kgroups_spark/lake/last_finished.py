"""The last finished audit, whose tables a reader sees, from the ledger and the tables' logs."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, STATE_LOG_HISTORY

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
# For changes to rows of other audits (Fence).
UPKEEP_APP_ID = "kgroups-upkeep"


def newest_audit(last_transaction: Callable[[str], int | None]) -> int:
    """The number of the newest audit that has written to a table (0: none). `last_transaction`: an application id ->
    the number that the table's log last had under it; None: never."""
    return max(last_transaction(app_id) or 0 for app_id in APP_IDS)


def since_last_finished(
    files: Iterable[File], newest_audit: Callable[[File], float], finished_in: Callable[[File], Iterable[int]]
) -> tuple[int, list[File]]:
    """The number of the last finished audit (0: none), and the ledger's files that may have rows of it or later ones.
    Numbers only rise, so files are opened from the newest down to the one that has it. `newest_audit`: the greatest
    number in a file by its statistics (inf: unknown). `finished_in`: reads those in it."""
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
    """audit_id and these columns of finished audits, `newest` first, in growing lots: a search for a new one reads few
    rows, one through all needs few reads. `ledger_rows`: rows of `audits` by `columns` and `conditions`."""
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
    """The error of readers if the table's version of that audit is no longer readable. Without
    `delta.enableExpiredLogCleanup=false`, a checkpoint of Spark's Delta writer deletes earlier versions of more than 30
    days. If that commit was an unfinished audit's, and the table had no other commit for 30 days, the audit's version
    is deleted, too."""
    name = table_path.rstrip("/").rpartition("/")[2]
    return KgroupsError(
        f"table {name}: the version of audit {audit_id} is no longer in the table's log, because an unfinished audit "
        "wrote a checkpoint: run kgroups audit"
    )


# Tables whose logs have lost their newest version.
#
# Delta reads a log up to its last file. If that file is lost, the table is as it was before, without an error. But each
# log has the number of the audit that wrote to it last, and the ledger's column `newest_audits` has the number that it
# must have.
#
# The ledger's own loss shows if a table has rows of an audit whose claim is lost, too. If only its row `finished` is,
# the audit seems to have been killed. An empty newest file shows that a row is lost.


# The lake's copy of the log, and the corrections of the state. All other tables follow from these.
NOT_REBUILT = (*LOG_TABLES, *STATE_LOG_HISTORY, CHECKPOINTS)


def is_lost(recorded: int | None, newest: int, files: Callable[[], Collection[object]]) -> bool:
    """Whether a table's log ends too early. `recorded`: its number in the ledger's `newest_audits`; None: it has none.
    `newest`: the newest audit in the log, 0: it has none, because the table is new, or a copy by other software, which
    has `files`."""
    return newest < (recorded or 0) and (newest > 0 or not files())


def claim_lost(written_by: int, ledger_transaction: int | None) -> bool:
    """Whether the ledger has lost the claim of an audit that wrote rows. `ledger_transaction`: under LEDGER_APP_ID in
    the ledger's log, which was read after the tables' logs; None: it has none, as in a copy by other software."""
    return ledger_transaction is not None and ledger_transaction >> 1 < written_by


def ledger_lost(location: str, written_by: int, claimed: int) -> KgroupsError:
    """The error of readers, and of audits, if a table has rows of an audit after the newest one that the ledger has."""
    return KgroupsError(
        f"the lake at {location} has lost the newest rows of its ledger (files in audits/_delta_log): tables have rows "
        f"of audit {written_by}, the ledger ends with audit {claimed}. Restore them, or copy the lake again while no "
        f"audit runs; or kgroups audit --take-over gives up the audits after {claimed}, and reads the log again"
    )


def ledger_end_empty(location: str, version: int) -> KgroupsError:
    """The error of readers if the newest file of the ledger's log, that version, has no content. Delta takes it for a
    commit that changed nothing, so that the audit that wrote it seems to be unfinished."""
    return KgroupsError(
        f"the newest file of the ledger of the lake at {location} is empty (audits/_delta_log/{version:020d}.json), as "
        "after a power failure: restore it; or kgroups audit gives up the audit that wrote it, and reads the log again"
    )


def version_lost(location: str, name: str) -> KgroupsError:
    """The error of a reader, and of an audit that would go on from an older version."""
    cure = "audit into a new lake" if name in NOT_REBUILT else "kgroups rebuild makes the table again"
    return KgroupsError(
        f"the lake at {location} has lost the newest version of table {name} (a file in {name}/_delta_log): restore "
        f"it; or {cure}"
    )


def table_lost(location: str, name: str) -> KgroupsError:
    """The error of a reader for a table that somebody has deleted."""
    return KgroupsError(
        f"the lake at {location} has no table {name} any more, which a lake of its layout has: restore it; or kgroups "
        "audit makes it again if the other tables have its rows"
    )


class Removal(NamedTuple):
    """Findings of audits up to `up_to` were removed by the maintenance with the number `by`."""

    up_to: int
    by: int


def removals(table_rows: Callable[..., pa.Table]) -> list[Removal]:
    """The removals, in no order. `table_rows`: LakeReader.table_rows."""
    removed = [IS_FINISHED, Condition("removed_up_to", "is not null")]
    rows = table_rows("audits", ["removed_up_to", "audit_id"], removed)
    return [Removal(row["removed_up_to"], row["audit_id"]) for row in rows.to_pylist()]


UNKNOWN = "unknown"

# Claims that audits of this process hold: one that failed in a notebook no longer runs, though the process does.
HELD_BY_THIS_PROCESS: set[str] = set()


class Owner(NamedTuple):
    """The process that runs an audit. Its text is in the ledger's column `owner`."""

    host: str
    pid: int
    started: str
    uuid: str

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started} {self.uuid}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """The owner from its text, in which only the host's name may have blanks; of other texts an unknown process."""
        words = text.rsplit(" ", 3)
        if len(words) < 4 or not words[1].isdecimal():
            return cls(text, 0, UNKNOWN, text)
        host, pid, started, its_uuid = words
        return cls(host, int(pid), started, its_uuid)

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(this_host(), pid, process_start(pid) or UNKNOWN, str(uuid.uuid4()))

    @property
    def is_alive(self) -> bool | None:
        """Whether the audit still runs; a later process with the same pid does not count. None: unknown, because the
        process is on another host or hidden (Linux: hidepid, systemd's ProtectProc)."""
        if self.host != this_host() or self.pid <= 0:
            return None
        if self.pid == os.getpid():
            return self.uuid in HELD_BY_THIS_PROCESS
        started = process_start(self.pid)
        if started is not None:
            return started == self.started
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return None
        except (ProcessLookupError, OverflowError):
            pass
        return False


def this_host() -> str:
    """The scope of process ids: the host's name, and on Linux its boot id and process-id namespace, as containers may
    share a name, or a kernel."""
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{name}/{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return name


def process_start(pid: int) -> str | None:
    """When the process started, as the system's own text without blanks; None: it has ended, or is hidden."""
    try:
        # proc(5): after the name in brackets the state, and as the 20th word clock ticks since the system's start.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if words[0] in ("Z", "X") else words[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    import subprocess  # not on Linux

    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip().replace(" ", "_") or None
