"""`kgroups audit` as a process of its own, to be killed at a chosen moment: Python, its JVM, its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# What an audit of the small log takes on a busy machine, many times over.
PATIENCE_S = 300


def start_audit(lake: Path, log: Path, *options: str) -> subprocess.Popen[str]:
    """The command, in a process group of its own; what it says goes to a file beside the lake."""
    said = lake.with_suffix(".said").open("w")
    command = [sys.executable, "-m", "kgroups_spark.cli", "audit", "--lake", str(lake), "--segments", str(log)]
    with said:
        return subprocess.Popen([*command, *options], stderr=said, stdout=said, text=True, start_new_session=True)


def said_by(lake: Path) -> str:
    """What the last command started on the lake has said."""
    return lake.with_suffix(".said").read_text()


def until(there: Path, process: subprocess.Popen[str]) -> None:
    """Returns when the file is there. Raises AssertionError if the process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while not there.exists():
        assert process.poll() is None and time.monotonic() < deadline, f"ended before {there} was there"
        time.sleep(0.001)


def log_of(lake: Path, table: str, version: int) -> Path:
    """The file that a commit of the table makes."""
    return lake / table / "_delta_log" / f"{version:020d}.json"


def next_log_of(lake: Path, table: str) -> Path:
    """The file that the table's next commit makes."""
    newest = max(path.stem for path in (lake / table / "_delta_log").glob("*.json"))
    return log_of(lake, table, int(newest) + 1)


def kill_all(process: subprocess.Popen[str]) -> None:
    """SIGKILL to Python, its JVM and its workers at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    # Workers make process groups of their own; without their JVM they end by themselves, as after any such kill.


def kill_those(process: subprocess.Popen[str], word: str) -> int:
    """SIGKILL to the descendants whose command line has the word; how many there were."""
    found = [pid for pid in descendants(process.pid) if word in command_line(pid)]
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return len(found)


def descendants(pid: int) -> Iterator[int]:
    """The process's children and theirs, oldest first."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # A JVM starts processes from any of its threads.
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += (task / "children").read_text().split() if task.name != str(pid) else []
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from descendants(int(child))


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def end_of(process: subprocess.Popen[str]) -> int:
    """The exit code, once it has ended by itself."""
    return process.wait(PATIENCE_S)
