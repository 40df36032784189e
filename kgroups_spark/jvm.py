"""Spark's JVM, where this process starts it: what it and its workers say goes through here, and it ends when asked to.

While it starts, Ivy and the JVM say much that matters only if the start fails. When the work has been interrupted, what
they say is about that.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import java_gateway

from kgroups_spark.interruption import SIGNALS

MOST_LINES = 2000  # of a start
SECONDS_TO_END = 5.0


class Jvm:
    """A process, and the thread that reads what it says."""

    def __init__(self, command: list[str], shown: Callable[[str], str], settings: dict[str, Any]) -> None:
        self.held_back: deque[str] | None = deque(maxlen=MOST_LINES)
        self.is_silent = False
        self._shown = shown
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._say(line.decode("utf-8", errors="replace").rstrip("\r\n"))

    def _say(self, line: str) -> None:
        if self.held_back is not None:
            self.held_back.append(line)
        elif not self.is_silent and SIGNALS.received is None and sys.__stderr__ is not None:
            sys.__stderr__.write(self._shown(line) + "\n")
            sys.__stderr__.flush()

    def started(self) -> None:
        """From now on what it says is said."""
        self.held_back = None

    def failed(self) -> None:
        """What it said when it was to start is said now."""
        self._reader.join(SECONDS_TO_END)
        said, self.held_back = self.held_back or (), None
        for line in said:
            self._say(line)

    def stop(self) -> None:
        """Ends it, with its workers; removes its temporary files where it does so in time."""
        self.is_silent = True
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.process.kill()


_running: list[Jvm] = []


def stop() -> None:
    """Ends what this process has started."""
    for jvm in _running:
        jvm.stop()


def _kill() -> None:
    for jvm in _running:
        jvm.kill()


SIGNALS.at_end.append(_kill)


@contextmanager
def own_jvm(shown: Callable[[str], str]) -> Iterator[None]:
    """While the block starts Spark, its JVM becomes ours. `shown`: a line of it for a terminal."""
    before = vars(java_gateway)["Popen"]
    started: list[Jvm] = []

    def start(command: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        jvm = Jvm(command, shown, settings)
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
