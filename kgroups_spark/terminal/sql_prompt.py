"""A prompt with line editing, completion of names by TAB, and a history of lines, by Python's readline."""

from __future__ import annotations

import sys
from collections.abc import Sequence

try:
    import readline
except ImportError:  # Windows, and builds of Python without it: plain lines
    readline = None  # type: ignore[assignment]

FIRST, NEXT = "kgroups> ", "     ... "


class Prompt:
    """Reads lines from a terminal."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words`: the names that TAB completes, ignoring case."""
        self._words = words
        self._found: list[str] = []
        if readline is not None:
            readline.set_completer(self._complete)
            readline.set_completer_delims(" \t\n,()=<>;'\"+-*/")
            is_libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def line(self, *, goes_on: bool) -> str | None:
        """The next line; None: Ctrl-D. `goes_on`: within a statement. Raises KeyboardInterrupt for Ctrl-C."""
        prompt = NEXT if goes_on else FIRST
        if sys.stdout.isatty():
            try:
                return input(prompt)
            except EOFError:
                sys.stderr.write("\n")
                return None
        # stdout is a file for the rows, so the prompt must not go there.
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None

    def _complete(self, text: str, number: int) -> str | None:
        if number == 0:
            self._found = [word for word in self._words if word.startswith(text.lower())]
        return self._found[number] if number < len(self._found) else None
