"""One line on stderr with the progress of long work."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kgroups_spark.escapes import printable
from kgroups_spark.terminal.output import say, terminal_width

_SECONDS_BETWEEN_LINES = 5.0  # where lines stay: in a log file, in a scheduler


class Progress:
    """Call it with the current step. A terminal shows one line, which changes; elsewhere a line is printed now and
    then."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._next_line = 0.0

    def __call__(self, text: str) -> None:
        if self._on_terminal:
            sys.stderr.write(f"\r\x1b[K{printable(text)[: terminal_width(sys.stderr) - 1]}")
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            say(text)
        sys.stderr.flush()

    def done(self) -> None:
        """Removes the line."""
        if self._on_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def work_reported(failed: str) -> Iterator[Progress]:
    """Progress of the block's work. A failure is one line, which begins with `failed`."""
    from kgroups_spark.lake.failures import machine_failures_reported

    progress = Progress()
    try:
        with machine_failures_reported(failed):
            yield progress
    finally:
        progress.done()
