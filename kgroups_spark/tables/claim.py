"""One audit at a time: a number is claimed before anything is written, and held until the audit has finished.

A claim is a row `running` of the ledger, appended in a Delta transaction whose version rises with the number: of two
that claim the same, one is refused, and so is the row `finished` of one that was taken over. It is read back, because
Spark's writer leaves a repeated transaction out without a word. Numbers are never used again.

A claim whose audit has not finished is in the way until its process is known to be gone: at once on this machine
(process id and start time), of another machine only when someone says so (`--take-over`) or after six hours.
"""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kgroups_spark.errors import KgroupsError
from kgroups_spark.tables.kernel import AlreadyWritten
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.last_finished import FINISHED, RUNNING
from kgroups_spark.tables.ledger import AuditRow, Ledger, finished, last_finished
from kgroups_spark.tables.migrations import migrate
from kgroups_spark.times import format_time

GIVEN_UP_AFTER = timedelta(hours=6)


class ClaimLost(KgroupsError):
    """Another audit runs, or has taken over: this one has stopped."""


@dataclass(frozen=True)
class Owner:
    """The process that runs an audit; as text in the ledger's column `owner`."""

    host: str
    pid: int
    started: str
    uuid: str

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started} {self.uuid}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        host, pid, started, its_uuid = text.split(" ")
        return cls(host, int(pid), started, its_uuid)

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(this_host(), pid, process_start(pid) or "unknown", str(uuid.uuid4()))

    @property
    def is_on_this_host(self) -> bool:
        return self.host == this_host()

    @property
    def is_alive(self) -> bool:
        """The audit still runs, asked on its own host; a later process with the same number is another."""
        if self.pid == os.getpid():
            return self.uuid in _held_by_this_process
        return process_start(self.pid) == self.started


# An audit that failed in this process (a notebook, a test) has left its claim behind as much as a killed one.
_held_by_this_process: set[str] = set()


class Claim:
    """A claimed number, held until the end of its `with` block.

    `row` is its row `running`, `before` the last finished audit (None: none has), `unfinished` the numbers after that
    one whose audits never finished: what they wrote must go first; `unfinished_rows` are their rows of the ledger.
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
        self._seen_version = -1
        _held_by_this_process.add(Owner.parse(row.owner).uuid)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Says that this process no longer works under the claim; unfinished, it can be taken over at once."""
        _held_by_this_process.discard(Owner.parse(self.row.owner).uuid)

    @property
    def audit_id(self) -> int:
        return self.row.audit_id

    @classmethod
    def take(cls, lake: Lake, *, take_over: bool = False, software_version: str | None = None, **meant: Any) -> Claim:
        """The claim on the next number, of a lake of today's layout.

        `meant`: columns of its row `running` that say what the audit is about to do, for whoever clears up behind it.
        Raises ClaimLost if another audit runs, or claimed the number first.
        """
        ledger = Ledger(lake)
        newest = next(reversed(ledger.newest()), None)
        if newest is not None and newest.status != FINISHED:
            _require_given_up(newest, take_over)
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
            raise ClaimLost(f"another audit of {lake.location} claimed number {row.audit_id} just now") from taken
        # Only now nobody else can finish any more: one that was about to may have done so in between.
        earlier = [each for each in ledger.newest() if each.audit_id < row.audit_id]
        before = last_finished(earlier)
        since = before.audit_id if before else 0
        claim = cls(ledger, row, before, tuple(each for each in earlier if each.audit_id > since))
        try:
            claim.check()
            claim.migrated = migrate(lake, claim.check)
        except Exception:
            claim.release()
            raise
        return claim

    def check(self) -> None:
        """Raises ClaimLost unless the claim is still the newest row of the ledger."""
        version = self.ledger.version()
        if version == self._seen_version:
            return
        newest = self.ledger.newest()[-1]
        if newest.owner != self.row.owner or newest.status == FINISHED:
            raise ClaimLost(
                f"audit {self.audit_id} stops: audit {newest.audit_id} ({_who(newest)}) has claimed the lake since"
            )
        self._seen_version = version

    def finish(self, **facts: object) -> AuditRow:
        """The row `finished` with these facts (columns of `audits`), now in the ledger: all the audit wrote counts."""
        self.check()
        row = finished(self.row, **{"finished_at": _now(), **facts})
        try:
            self.ledger.append(row)
        except AlreadyWritten as already:
            raise ClaimLost(f"audit {self.audit_id} stops: a later one has claimed the lake just now") from already
        return row


def _require_given_up(running: AuditRow, take_over: bool) -> None:
    owner = Owner.parse(running.owner)
    if owner.is_on_this_host:
        if owner.is_alive:
            raise ClaimLost(f"audit {running.audit_id} is running ({_who(running)}): wait for it, or end that process")
    elif not take_over and _now() - running.started_at < GIVEN_UP_AFTER:
        raise ClaimLost(
            f"audit {running.audit_id} is running or was killed ({_who(running)}), which cannot be seen from here: "
            "if it no longer runs, say --take-over; after 6 hours it is taken to be gone"
        )


def _who(row: AuditRow) -> str:
    owner = Owner.parse(row.owner)
    return f"process {owner.pid} on {owner.host.split('/')[0]}, since {format_time(row.started_at)}"


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def this_host() -> str:
    """The machine, as far as its processes can be asked after: name, and on Linux boot and process-id namespace.

    Containers may share a name, or a kernel; after a restart the process ids of before mean nothing.
    """
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{name}/{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return name


def process_start(pid: int) -> str | None:
    """When the process was started, as text without blanks in the system's own form; None: no such process runs."""
    try:
        # proc(5): behind the name in brackets the state, and as the 20th word clock ticks since the system's start.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if words[0] in ("Z", "X") else words[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip().replace(" ", "_") or None
