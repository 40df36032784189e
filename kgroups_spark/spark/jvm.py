"""Spark's JVM, if this process starts it: its output and that of its workers passes through here, and it can be ended.

During the start, Ivy and the JVM print many lines that matter only if the start fails, so they are held back. After an
interruption their lines are dropped, because they are only about that.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkContext, java_gateway

from kgroups_spark.spark.interruption import SIGNALS

MOST_LINES = 2000  # lines held back during a start; the newest count
SECONDS_TO_END = 5.0


class Jvm:
    """The JVM's process, and the thread that reads its output."""

    def __init__(self, command: list[str], say: Callable[[str], object], settings: dict[str, Any]) -> None:
        self.held_back: deque[str] | None = deque(maxlen=MOST_LINES)
        self.is_silent = False
        self._say_line = say
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._say(line.decode("utf-8", errors="replace").rstrip("\r\n"))

    def _say(self, line: str) -> None:
        if self.held_back is not None:
            self.held_back.append(line)
        elif not self.is_silent and SIGNALS.received is None:
            self._say_line(line)

    def started(self) -> None:
        """The start has succeeded: drops the lines held back and prints later ones."""
        self.held_back = None

    def failed(self) -> None:
        """The start has failed: prints the lines held back."""
        self._reader.join(SECONDS_TO_END)
        self._close_stdin()
        said, self.held_back = self.held_back or (), None
        for line in said:
            self._say(line)

    def stop(self) -> None:
        """Ends the JVM with its workers. It removes its temporary files if it ends within SECONDS_TO_END."""
        self.is_silent = True
        self._close_stdin()
        self.process.terminate()
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def _close_stdin(self) -> None:
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def kill(self) -> None:
        self.process.kill()


_running: list[Jvm] = []
_is_stopping = threading.Event()


def stop() -> None:
    """Ends every JVM that this process has started, and silences libraries that would log the broken connections."""
    _is_stopping.set()
    logging.disable(logging.CRITICAL)
    for jvm in _running:
        jvm.stop()


def _kill() -> None:
    for jvm in _running:
        jvm.kill()


SIGNALS.at_end.append(_kill)

SECONDS_BETWEEN_TRIES = 0.5


def _cancel_jobs() -> None:
    """Cancels Spark's jobs until the signal has been answered, because PySpark waits in a `finally` for the end of the
    job whose rows it fetches. It repeats that, because a job may start just when the signal arrives."""
    while True:
        with SIGNALS.lock:
            context = SparkContext._active_spark_context
            if context is None or _is_stopping.is_set() or SIGNALS.received is None:
                return
            with suppress(Exception):
                context.cancelAllJobs()
        time.sleep(SECONDS_BETWEEN_TRIES)


SIGNALS.on_arrival.append(_cancel_jobs)


@contextmanager
def own_jvm(say: Callable[[str], object]) -> Iterator[None]:
    """In the block, a JVM that PySpark starts becomes a Jvm. `say` is called with each of its lines to be printed."""
    before = vars(java_gateway)["Popen"]
    started: list[Jvm] = []

    def start(command: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        jvm = Jvm(command, say, settings)
        started.append(jvm)
        _running.append(jvm)
        return jvm.process

    vars(java_gateway)["Popen"] = start
    try:
        yield
    except Exception:
        for jvm in started:
            jvm.failed()
        raise
    finally:
        vars(java_gateway)["Popen"] = before
    for jvm in started:
        jvm.started()
