"""The process that runs an audit, and whether that process is still alive."""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "unknown"

# Claims that audits of this process now hold. An audit that failed in it (a notebook, a test) no longer runs, although
# the process is alive.
_held_by_this_process: set[str] = set()


@dataclass(frozen=True)
class Owner:
    """The process that runs an audit. Its text is in the ledger's column `owner`."""

    host: str
    pid: int
    started: str
    uuid: str

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started} {self.uuid}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """The owner from its text, in which only the host's name may have blanks. Any other text becomes an unknown
        process on a host of that name."""
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
    def is_on_this_host(self) -> bool:
        return self.host == this_host()

    @property
    def is_alive(self) -> bool | None:
        """Whether the audit still runs; a later process with the same pid does not count. None: unknown, because the
        process is on another host or hidden (Linux: hidepid, systemd's ProtectProc)."""
        if not self.is_on_this_host or self.pid <= 0:
            return None
        if self.pid == os.getpid():
            return self.uuid in _held_by_this_process
        started = process_start(self.pid)
        if started is not None:
            return started == self.started
        return None if is_hidden(self.pid) else False


def now_held(owner: Owner) -> None:
    """Notes that this process works under the claim of that owner."""
    _held_by_this_process.add(owner.uuid)


def released(owner: Owner) -> None:
    """Notes that this process no longer works under the claim of that owner."""
    _held_by_this_process.discard(owner.uuid)


def this_host() -> str:
    """The scope of process ids: the host's name, and on Linux its boot id and process-id namespace.

    Containers may share a name, or a kernel; after a restart earlier process ids mean nothing.
    """
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{name}/{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return name


def process_start(pid: int) -> str | None:
    """The start time of the process, as text without blanks in the system's own form; None: it has ended, or is hidden
    from us (`is_hidden`)."""
    try:
        # proc(5): after the name in brackets the state, and as the 20th word clock ticks since the system's start.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if words[0] in ("Z", "X") else words[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip().replace(" ", "_") or None


def is_hidden(pid: int) -> bool:
    """Whether a process with that pid exists but is hidden from us: the kernel answers a signal, /proc does not."""
    if shown(pid):
        return False  # a zombie
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def shown(pid: int) -> bool:
    """Whether /proc shows the process to us, running or not."""
    return Path(f"/proc/{pid}/stat").exists()
