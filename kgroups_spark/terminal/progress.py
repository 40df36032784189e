"""One line on stderr with the progress of long work."""

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kgroups_spark.escapes import printable
from kgroups_spark.terminal.output import say, terminal_width, write_stderr

_SECONDS_BETWEEN_LINES = 5.0  # where lines are not overwritten: in a log file, in a scheduler


class Progress:
    """Call it with the current step. A terminal shows one line, which is overwritten; it may wrap, because nothing is
    cut. Elsewhere, and on a terminal without control sequences, a line is printed now and then."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_line = 0.0
        self._lines = 1

    def __call__(self, text: str) -> None:
        if self._on_terminal:
            lines = textwrap.wrap(printable(text), max(1, terminal_width(sys.stderr) - 1)) or [""]
            write_stderr(self._cleared + "\n".join(lines))
            self._lines = len(lines)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
            say(text)

    def done(self) -> None:
        """Removes the line."""
        if self._on_terminal:
            write_stderr(self._cleared)
            self._lines = 1

    @property
    def _cleared(self) -> str:
        """The control sequence that moves to the first shown line and clears from there on."""
        up = f"\x1b[{self._lines - 1}A" if self._lines > 1 else ""
        return f"\r{up}\x1b[J"


@contextmanager
def work_reported(failed: str) -> Iterator[Progress]:
    """Shows the progress of the block's work. A failure is one line, which begins with `failed`."""
    from kgroups_spark.lake.failures import machine_failures_reported

    progress = Progress()
    try:
        with machine_failures_reported(failed):
            yield progress
    finally:
        progress.done()
