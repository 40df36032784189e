"""`kgroups audit` as a process of its own, to be killed at a chosen moment: Python, its JVM, its workers."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.small_lakes import environment_of_small_lakes

# Many times as long as an audit of the small log takes on a busy machine.
PATIENCE_S = 300


@contextmanager
def started_audit(lake: Path, log: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, in a process group of its own, whose Spark commits one table at a time; what it says goes to a file
    beside the lake. None of its processes is left at the end of the block, whatever happens in it."""
    command = [sys.executable, "-m", "kgroups_spark.cli.main", "audit", "--lake", str(lake), "--segments", str(log)]
    whole = {**os.environ, **environment_of_small_lakes()}
    with lake.with_suffix(".said").open("w") as said:
        process = subprocess.Popen(command, env=whole, stderr=said, stdout=said, text=True, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_all(process)


def said_by(lake: Path) -> str:
    """The output of the last command that was started on the lake."""
    return lake.with_suffix(".said").read_text()


# First words of what `kgroups` says of its work: on a terminal in one line that is written over.
PROGRESS = ("starting", "reading", "replaying", "committing", "deciding", "looking", "asking", "saving", "optimizing")
PROGRESS += ("connecting", "deleting", "removing", "counting", "finding", "comparing", "drawing", "rebuilding")


def without_progress(said: str) -> list[str]:
    """The lines that are no progress: an error, or the noise of Spark, its JVM and Ivy."""
    return [line for line in said.splitlines(keepends=True) if not line.startswith(PROGRESS)]


def until(there: Path, process: subprocess.Popen[str]) -> None:
    """Returns when the file is there. Raises AssertionError if the process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while not there.exists():
        assert process.poll() is None and time.monotonic() < deadline, f"ended before {there} was there"
        time.sleep(0.001)


def until_python_runs(spark: SparkSession) -> None:
    """Returns when the session's tasks have Python workers again.

    Spark learns that a daemon is dead from the first tasks that it fails, and runs a task of a local session once.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
            return
        except (Py4JJavaError, PySparkException):
            if time.monotonic() > deadline:
                raise


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


def kill_jvm(process: subprocess.Popen[str]) -> bool:
    """SIGKILL to the JVM; whether there was one."""
    return _kill(outermost(process.pid, "pyspark-shell"))


def kill_workers(pid: int) -> bool:
    """SIGKILL to the Python workers that the process has, and to the daemon that forks them; whether there was one."""
    daemons = list(outermost(pid, "pyspark.daemon"))
    return _kill([*daemons, *itertools.chain.from_iterable(map(children, daemons))])


def _kill(pids: Iterable[int]) -> bool:
    found = list(pids)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def outermost(pid: int, word: str) -> Iterator[int]:
    """The descendants whose command line has the word, without what those have started: a process that starts another
    one is there twice for a moment, by the same command line."""
    for child in children(pid):
        if word in command_line(child):
            yield child
        else:
            yield from outermost(child, word)


def children(pid: int) -> list[int]:
    """The processes that it started and that have not been reaped, oldest first for each of its threads."""
    found: list[int] = []
    # A JVM starts processes from any of its threads, which come and go.
    with suppress(OSError):
        for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def end_of(process: subprocess.Popen[str]) -> int:
    """The exit code, once it has ended by itself."""
    return process.wait(PATIENCE_S)
