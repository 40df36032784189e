"""CPU seconds and memory of this process and all that it started, such as a JVM and Spark's workers. Needs /proc."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """User and system time of the whole tree so far, including children that have ended."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in tree()) / _TICKS


def cpu_of(work: Callable[[], None]) -> float:
    """The CPU seconds that the work took."""
    before = cpu_seconds()
    work()
    return cpu_seconds() - before


def peak_worker_bytes() -> int:
    """The largest resident size that any of Spark's Python workers has reached."""
    return max((peak_bytes(pid) for pid in tree() if _is_worker(pid)), default=0)


def tree() -> list[int]:
    """This process and its descendants."""
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdigit, (entry.name for entry in Path("/proc").iterdir()))):
        stat = _stat(pid)
        if stat:
            children.setdefault(int(stat[1]), []).append(pid)
    return list(_with_descendants(os.getpid(), children))


def _with_descendants(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children.get(pid, ()):
        yield from _with_descendants(child, children)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (the third); an empty list if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def peak_bytes(pid: int) -> int:
    """The largest resident size of a process so far; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
