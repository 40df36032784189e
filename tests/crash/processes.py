"""Helpers for `kgroups` in processes of its own, which are killed or interrupted: Python, its JVM, its workers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# Many times as long as an audit of the small log takes on a busy machine.
PATIENCE_S = 300

# First words of what `kgroups` says of its work: on a terminal in one line that is written over.
PROGRESS = ("starting", "reading", "replaying", "committing", "deciding", "looking", "asking", "saving", "optimizing")
PROGRESS += ("connecting", "deleting", "removing", "counting", "finding", "comparing", "drawing", "rebuilding")


def without_progress(said: str) -> list[str]:
    """The lines that are no progress: an error, or the noise of Spark, its JVM and Ivy."""
    return [line for line in said.splitlines(keepends=True) if not line.startswith(PROGRESS)]


def until(there: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Returns when it is so. Raises AssertionError if the process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)


def until_python_runs(spark: SparkSession) -> None:
    """Returns when the session's tasks have Python workers again.

    Spark learns that a daemon is dead from the first tasks that it fails, and runs a task of a local session once. SQL
    and RDDs have daemons of their own.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
            spark.sparkContext.range(2, numSlices=2).map(abs).collect()
            return
        except (Py4JJavaError, PySparkException):
            if time.monotonic() > deadline:
                raise


def kill_below(pid: int, word: str) -> bool:
    """SIGKILL to the descendants of a process whose command line has the word: `pyspark-shell` is the JVM,
    `pyspark.worker` are the Python workers. Whether there was one."""
    found = False
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if word in " ".join(process.cmdline()):
                process.kill()
                found = True
    return found


def in_session(number: int) -> list[str]:
    """Command lines of the processes that the process of this number has started, and of their children."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found
