"""One audit at a time: an audit claims a number before it writes anything, and holds it until it has finished.

A claim is a row `running` of the ledger, appended in a Delta transaction with a version that rises with the number. If
two audits claim the same number, Delta refuses one of them. It also refuses the row `finished` of an audit that was
taken over. The claim is read back, because Spark's writer silently drops a repeated transaction. It is read again
before each commit, because on a store that checks and then writes, two processes can write the same version of a log,
and the later one stays. Numbers are never reused.

An unfinished claim blocks others until its process is known to have ended: at once on this machine (Owner), on
another machine only by `--take-over` or twelve hours after it began.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Fence, Lake, Transaction, first_change_of, in_parallel, until_nobody_interferes
from kgroups_spark.lake.last_finished import (
    APP_ID,
    FINISHED,
    HELD_BY_THIS_PROCESS,
    NOT_REBUILT,
    REBUILD_APP_ID,
    RUNNING,
    UPKEEP_APP_ID,
    Owner,
    is_lost,
    ledger_lost,
    newest_audit,
    version_lost,
)
from kgroups_spark.lake.ledger import WAS_COMPLETE, AuditRow, Ledger, last_finished
from kgroups_spark.lake.store import AlreadyWritten, TableFile
from kgroups_spark.package_data import __version__
from kgroups_spark.tables.schemas import TABLES, WORK_FOLDER, arrow_schema
from kgroups_spark.words import format_time

# Fencing stops an audit that still runs then.
GIVEN_UP_AFTER = timedelta(hours=12)


class ClaimLost(KgroupsError):
    """Another audit is running or has taken over, so this one has stopped."""


class Claim:
    """A claimed number, held until the end of its `with` block; `row`: its row `running`. `before`: the last finished
    audit. `unfinished`: the numbers of later audits, whose rows must be deleted first; `unfinished_rows`: their rows
    `running`. `notes`: on audits that were given up although they had written all their rows."""

    def __init__(
        self, ledger: Ledger, row: AuditRow, before: AuditRow | None, unfinished_rows: tuple[AuditRow, ...]
    ) -> None:
        self.ledger = ledger
        self.row = row
        self.before = before
        self.unfinished_rows = unfinished_rows
        self.unfinished = tuple(sorted({each.audit_id for each in unfinished_rows}))
        self.notes: list[str] = []
        self._seen: dict[int, str | None] = {}
        HELD_BY_THIS_PROCESS.add(Owner.parse(row.owner).uuid)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, Exception) and not isinstance(error, ClaimLost):
                self._raise_if_taken_over(error)
        finally:
            self.release()

    def _raise_if_taken_over(self, error: Exception) -> None:
        """Raises ClaimLost if another audit has taken over: it may have caused `error` by removing our files."""
        others: list[AuditRow] = []
        with suppress(Exception):  # the store or the JVM may be what failed
            ours, others = self._rows_since()
            if any(row.status == FINISHED for row in ours):
                return
        if others:
            raise self._lost_to(others[-1]) from error

    def release(self) -> None:
        """Ends this process's work under the claim. An unfinished claim can then be taken over at once."""
        HELD_BY_THIS_PROCESS.discard(Owner.parse(self.row.owner).uuid)

    @property
    def audit_id(self) -> int:
        return self.row.audit_id

    @property
    def fence(self) -> Fence:
        return Fence(self.ledger.lake, self.audit_id, self.check)

    @classmethod
    def take(cls, lake: Lake, *, take_over: bool = False, **meant: Any) -> Claim:
        """The claim on the next number; the lake has the present layout afterwards. `meant`: columns of its row
        `running`, for the next audit if this one does not finish. Raises ClaimLost if another audit runs or was first;
        KgroupsError if the ledger lost claims of audits that wrote rows, which `take_over` gives up."""
        ledger = Ledger(lake)
        newest = next(reversed(ledger.newest()), None)
        if newest is not None and newest.status != FINISHED:
            require_given_up(newest, take_over)
        last = newest.audit_id if newest else 0
        lost = ledger.lost_audit()
        if lost is not None and not take_over:
            raise ledger_lost(lake.location, lost, last)
        row = AuditRow(
            audit_id=(lost or last) + 1,
            status=RUNNING,
            owner=str(Owner.this_process()),
            started_at=_now(),
            software_version=__version__,
            **meant,
        )
        try:
            ledger.append(row)
        except AlreadyWritten as taken:
            raise ClaimLost(f"another audit of {lake.location} has just claimed number {row.audit_id}") from taken
        # Only from now on no earlier audit can finish; one may have finished since the first look.
        earlier = [each for each in ledger.newest() if each.audit_id < row.audit_id]
        before = last_finished(earlier)
        since = before.audit_id if before else 0
        unfinished = tuple(each for each in earlier if each.audit_id > since and each.status == RUNNING)
        if lost is not None:
            unfinished += (AuditRow(lost, RUNNING, "", row.started_at),)
        # Earlier replaced ranges stay replaced in this audit's row.
        row = row._replace(replaced_ranges=before.replaced_ranges if before else None)
        lake.replaced = row.replaced
        claim = cls(ledger, row, before, unfinished)
        try:
            claim.check()
        except Exception:
            claim.release()
            raise
        return claim

    def check(self) -> None:
        """Raises ClaimLost unless the ledger's newest row is this claim, and no other audit has the same number."""
        log = self.ledger.log
        newest = log.snapshot().version
        if newest in self._seen and all(log.entry(version) == text for version, text in self._seen.items()):
            return
        # Entries are read before the rows, so that the next check detects an entry that was overwritten in between.
        claimed = min(self._seen, default=newest)
        seen = {version: log.entry(version) for version in {claimed, newest}}
        self._require_held()
        self._seen = seen

    def finish(self, **facts: Any) -> AuditRow:
        """Appends the row `finished` with these facts (columns of `audits`) to the ledger, and returns it. From then on
        all rows of the audit count. Raises ClaimLost."""
        self.check()
        row = self.row._replace(status=FINISHED, **{"finished_at": _now(), **facts})
        try:
            self.ledger.append(row)
        except AlreadyWritten as already:
            raise ClaimLost(f"audit {self.audit_id} stops: a later audit has just claimed the lake") from already
        self._require_held(FINISHED)
        return row

    def _require_held(self, status: str = RUNNING) -> None:
        """Raises ClaimLost unless the newest row is ours, of that status, and no other audit's from our number on."""
        ours, others = self._rows_since()
        if others:
            raise self._lost_to(others[-1])
        if not ours or ours[-1].status != status:
            state = f"is {ours[-1].status}" if ours else "is no longer in the ledger"
            raise ClaimLost(f"audit {self.audit_id} stops: its claim {state}")

    def _rows_since(self) -> tuple[list[AuditRow], list[AuditRow]]:
        """The ledger's rows from this claim's number on: those of this claim, and those of other audits."""
        rows = [row for row in self.ledger.newest() if row.audit_id >= self.audit_id]
        ours = [row for row in rows if row.owner == self.row.owner]
        return ours, [row for row in rows if row.owner != self.row.owner]

    def _lost_to(self, other: AuditRow) -> ClaimLost:
        return ClaimLost(f"audit {self.audit_id} stops: audit {other.audit_id} ({_who(other)}) has claimed the lake")


def require_given_up(running: AuditRow, take_over: bool) -> None:
    alive = Owner.parse(running.owner).is_alive
    if alive:
        raise ClaimLost(f"audit {running.audit_id} is running ({_who(running)}): wait for it, or end that process")
    if alive is None and not take_over and _now() - running.started_at < GIVEN_UP_AFTER:
        raise ClaimLost(
            f"audit {running.audit_id} is running or was killed ({_who(running)}), which cannot be checked from here: "
            "if it no longer runs, use --take-over; 12 hours after it began it counts as dead"
        )


def _who(row: AuditRow) -> str:
    owner = Owner.parse(row.owner)
    return f"process {owner.pid or '?'} on {owner.host.split('/')[0]}, since {format_time(row.started_at)}"


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


# Rows of audits that did not finish, and their removal. First such audits are shut out: one may still run somewhere.
# Then their rows are deleted, by transactions of the audit that clears up (Fence), up to its own number. RESTORE would
# not do: VACUUM and OPTIMIZE raise versions, too, and delete older files.


def clear_up(claim: Claim) -> list[str]:
    """Restores history as the last finished audit left it; returns the names of tables that had more rows. Current
    tables may still have rows of an unfinished audit: the audit that clears up rewrites them."""
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
    """Deletes the rows of audits between the last finished one (0: none) and this one, but not of current tables, which
    the next audit rewrites; returns the names of the tables that had such rows."""
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
        parts = [part for file in files.values() for part in lake.write(name, rows_left(file), fence.audit_id)]
        log.commit(parts, by=by, transaction=transaction, remove=lambda file: file.path in files, removes=len(files))

    fence.commit(name, operation, write)


def _lies_between(last_finished: int, audit_id: int, file: TableFile) -> bool:
    oldest, newest = (file.bound(which, "audit_id") for which in ("minValues", "maxValues"))
    return oldest is not None and newest is not None and last_finished < oldest and newest < audit_id


def _is_at_most(last_finished: int, file: TableFile) -> bool:
    newest = file.bound("maxValues", "audit_id")
    return newest is not None and newest <= last_finished


# Deleted tables, and those whose newest version is lost: tables that can be rebuilt, and those that cannot.


def gone_tables(lake: Lake) -> list[str]:
    """The tables that the lake lacks. Raises KgroupsError if one of them cannot be rebuilt."""
    there = set(lake.place.names())
    gone = [name for name in TABLES if name not in there]
    lost = [name for name in gone if name in NOT_REBUILT]
    if lost:
        raise KgroupsError(
            f"the lake at {lake.location} has lost table {lost[0]}, which cannot be rebuilt: restore it, or audit into "
            "a new lake"
        )
    return gone


def require_newest(lake: Lake, last: AuditRow | None, *, rebuilds: bool = False) -> dict[str, int]:
    """The newest audit in each table's log, as the last finished audit recorded it (None: none has finished), without
    deleted tables. Raises KgroupsError for a table whose log has lost that version: after the next audit nothing would
    show it. `rebuilds`: only for a table that cannot be rebuilt; the others are left out."""
    found = {}
    for name, recorded in ((last and last.newest_audits) or {}).items():
        if not lake.place.has(name):
            continue
        now = lake.table(name).snapshot()
        if not is_lost(recorded, newest_audit(now.last_transaction), now.files):
            found[name] = recorded
        elif name in NOT_REBUILT or not rebuilds:
            raise version_lost(lake.location, name)
    return found


def make_again(fence: Fence, names: Sequence[str]) -> None:
    """Creates the tables, empty; a table that another process has just created stays as it is."""
    for name in names:
        fence.check_claim()
        fence.lake.create_table(TABLES[name])
