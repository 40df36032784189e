"""Spark's JVM, where this process starts it: what it and its workers say goes through here, and it ends when asked to.

While it starts, Ivy and the JVM say much that matters only if the start fails. When the work has been interrupted, what
they say is about that.
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

from kgroups_spark.interruption import SIGNALS

MOST_LINES = 2000  # of a start
SECONDS_TO_END = 5.0


class Jvm:
    """A process, and the thread that reads what it says."""

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
        """From now on what it says is said."""
        self.held_back = None

    def failed(self) -> None:
        """Shows now what the JVM said while it started."""
        self._reader.join(SECONDS_TO_END)
        self._close_stdin()
        said, self.held_back = self.held_back or (), None
        for line in said:
            self._say(line)

    def stop(self) -> None:
        """Ends it, with its workers; removes its temporary files where it does so in time."""
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
    """Ends what this process has started, and lets no library speak of the connections that break."""
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
    """Ends Spark's jobs until the signal has been answered. PySpark waits in a `finally` for the end of the job whose
    rows it fetches; and one may be started just when the signal comes."""
    while True:
        with SIGNALS.lock:
            context = SparkContext._active_spark_context
            if context is None or _is_stopping.is_set() or not SIGNALS.is_unanswered:
                return
            with suppress(Exception):
                context.cancelAllJobs()
        time.sleep(SECONDS_BETWEEN_TRIES)


SIGNALS.on_arrival.append(_cancel_jobs)


@contextmanager
def own_jvm(say: Callable[[str], object]) -> Iterator[None]:
    """While the block starts Spark, its JVM becomes ours. `say` is called with each line of it that is to be said."""
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
