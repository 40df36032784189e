"""One audit at a time: a number is claimed before anything is written, and held until the audit has finished.

A claim is a row `running` of the ledger, appended in a Delta transaction whose version rises with the number: of two
that claim the same, one is refused, and so is the row `finished` of one that was taken over. It is read back, because
Spark's writer leaves a repeated transaction out without a word, and again before each commit, because a store that
looks and then writes lets two write the same version of a log, of which the later one stays. Numbers are never reused.

An unfinished claim blocks others until its process is known to have ended: at once on this machine (owner.py), on
another machine only by `--take-over` or six hours after its last heartbeat.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import FINISHED, RUNNING
from kgroups_spark.lake.ledger import AuditRow, Ledger, finished, last_finished
from kgroups_spark.lake.migrations import migrate
from kgroups_spark.lake.owner import Owner, now_held, released
from kgroups_spark.lake.store import AlreadyWritten
from kgroups_spark.times import format_time

GIVEN_UP_AFTER = timedelta(hours=6)
# An audit of a small log ends before the first one.
BEAT_EVERY = timedelta(minutes=20)


class ClaimLost(KgroupsError):
    """Another audit runs, or has taken over: this one has stopped."""


class Claim:
    """A claimed number, held until the end of its `with` block.

    `row` is its row `running`, `before` the last finished audit (None: none has), `unfinished` the numbers after that
    one whose audits never finished: what they wrote must go first; `unfinished_rows` are their rows `running`.
    `migrated` says, for the ledger's notes, that the lake had an older layout (None: it had not).
    """

    migrated: str | None = None

    def __init__(
        self, ledger: Ledger, row: AuditRow, before: AuditRow | None, unfinished_rows: tuple[AuditRow, ...]
    ) -> None:
        self.ledger = ledger
        self.row = row
        self.before = before
        self.unfinished_rows = unfinished_rows
        self.unfinished = tuple(sorted({each.audit_id for each in unfinished_rows}))
        self._seen: dict[int, str | None] = {}
        self._released = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat_until_released, name="heartbeat", daemon=True)
        now_held(Owner.parse(row.owner))

    def __enter__(self) -> Claim:
        self._heartbeat.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, Exception) and not isinstance(error, ClaimLost):
                self._raise_if_taken_over(error)
        finally:
            self.release()

    def _raise_if_taken_over(self, error: Exception) -> None:
        """An audit that was taken over says that, whatever it failed with: its files may have gone with the
        clean-up."""
        others: list[AuditRow] = []
        with suppress(Exception):  # the store or the JVM may be what failed
            ours, others = self._rows_since()
            if any(row.status == FINISHED for row in ours):
                return
        if others:
            raise self._lost_to(others[-1]) from error

    def release(self) -> None:
        """Says that this process no longer works under the claim; unfinished, it can be taken over at once."""
        self._released.set()
        if self._heartbeat.is_alive():
            self._heartbeat.join()
        released(Owner.parse(self.row.owner))

    @property
    def audit_id(self) -> int:
        return self.row.audit_id

    @property
    def fence(self) -> Fence:
        """For what the audit changes of others' rows."""
        return Fence(self.ledger.lake, self.audit_id, self.check)

    @classmethod
    def take(cls, lake: Lake, *, take_over: bool = False, software_version: str | None = None, **meant: Any) -> Claim:
        """The claim on the next number, of a lake of today's layout.

        `meant`: columns of its row `running` that say what the audit is about to do, for whoever clears up after it.
        Raises ClaimLost if another audit runs, or claimed the number first.
        """
        ledger = Ledger(lake)
        newest = next(reversed(ledger.newest()), None)
        if newest is not None and newest.status != FINISHED:
            _require_given_up(ledger, newest, take_over)
        row = AuditRow(
            audit_id=newest.audit_id + 1 if newest else 1,
            status=RUNNING,
            owner=str(Owner.this_process()),
            started_at=_now(),
            software_version=software_version,
            **meant,
        )
        try:
            ledger.append(row)
        except AlreadyWritten as taken:
            raise ClaimLost(f"another audit of {lake.location} has just claimed number {row.audit_id}") from taken
        # Only now nobody else can finish any more: one that was about to may have done so in between.
        earlier = [each for each in ledger.newest() if each.audit_id < row.audit_id]
        before = last_finished(earlier)
        since = before.audit_id if before else 0
        unfinished = tuple(each for each in earlier if each.audit_id > since and each.status == RUNNING)
        # Replaced ranges stay replaced, whatever this audit does.
        row = replace(row, replaced_ranges=before.replaced_ranges if before else None)
        lake.replaced = row.replaced
        claim = cls(ledger, row, before, unfinished)
        try:
            claim.check()
            claim.migrated = migrate(claim.fence)
        except Exception:
            claim.release()
            raise
        return claim

    def check(self) -> None:
        """Raises ClaimLost unless the ledger's newest row is this claim, and nobody else's of the same number."""
        log, newest = self.ledger.log, self.ledger.version()
        if newest in self._seen and all(log.entry(version) == text for version, text in self._seen.items()):
            return
        # Read before the rows: what is written over them meanwhile, the next look finds changed.
        claimed = min(self._seen, default=newest)
        seen = {version: log.entry(version) for version in {claimed, newest}}
        self._require_held()
        self._seen = seen

    def finish(self, **facts: object) -> AuditRow:
        """The row `finished` with these facts (columns of `audits`), now in the ledger: all the audit wrote counts."""
        self.check()
        row = finished(self.row, **{"finished_at": _now(), **facts})
        try:
            self.ledger.append(row)
        except AlreadyWritten as already:
            raise ClaimLost(f"audit {self.audit_id} stops: a later audit has just claimed the lake") from already
        self._require_held(FINISHED)
        return row

    def _require_held(self, status: str = RUNNING) -> None:
        """The newest row is this claim's and has that status, and no other row of its number is someone else's."""
        ours, others = self._rows_since()
        if others:
            raise self._lost_to(others[-1])
        if not ours or ours[-1].status != status:
            said = f"is {ours[-1].status}" if ours else "is no longer in the ledger"
            raise ClaimLost(f"audit {self.audit_id} stops: its claim {said}")

    def _rows_since(self) -> tuple[list[AuditRow], list[AuditRow]]:
        """The ledger's rows from this claim's number on: its own, and those of others."""
        rows = [row for row in self.ledger.newest() if row.audit_id >= self.audit_id]
        ours = [row for row in rows if row.owner == self.row.owner]
        return ours, [row for row in rows if row.owner != self.row.owner]

    def _lost_to(self, other: AuditRow) -> ClaimLost:
        return ClaimLost(f"audit {self.audit_id} stops: audit {other.audit_id} ({_who(other)}) has claimed the lake")

    def beat(self) -> None:
        """Says in the ledger that the audit is at work. Raises ClaimLost if another one has taken over."""
        self._require_held()
        self.ledger.beat(self.audit_id, _now())

    def _beat_until_released(self) -> None:
        # While tasks run the main thread waits for hours. A beat is a commit of its own, which Delta puts before or
        # after the main thread's; one that fails is not missed before six hours.
        while not self._released.wait(BEAT_EVERY.total_seconds()):
            with suppress(Exception):
                self.beat()


def _require_given_up(ledger: Ledger, running: AuditRow, take_over: bool) -> None:
    owner = Owner.parse(running.owner)
    alive = owner.is_alive
    if alive:
        raise ClaimLost(f"audit {running.audit_id} is running ({_who(running)}): wait for it, or end that process")
    if alive is None and not take_over and _now() - ledger.heard_of(running) < GIVEN_UP_AFTER:
        raise ClaimLost(
            f"audit {running.audit_id} is running or was killed ({_who(running)}), which cannot be checked from here: "
            "if it no longer runs, use --take-over; 6 hours after its last heartbeat it counts as dead"
        )


def _who(row: AuditRow) -> str:
    owner = Owner.parse(row.owner)
    return f"process {owner.pid or '?'} on {owner.host.split('/')[0]}, since {format_time(row.started_at)}"


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
