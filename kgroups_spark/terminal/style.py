"""Bold and two colours, if they help and are wanted; nothing on the screen depends on them."""

import os
import re
from dataclasses import dataclass
from typing import TextIO

from kgroups_spark.escapes import printable

OWN_MARKS = re.compile("(\x1b\\[(?:0|1|2|33)m)")


@dataclass(frozen=True)
class Style:
    """Marks text for a terminal, or returns it unchanged."""

    is_on: bool

    @classmethod
    def of(cls, out: TextIO) -> "Style":
        """On for a terminal that supports marks, unless NO_COLOR is set (no-color.org)."""
        return cls(out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def heading(self, text: str) -> str:
        return self._marked(text, "1")

    def warning(self, text: str) -> str:
        return self._marked(text, "33")

    def quiet(self, text: str) -> str:
        return self._marked(text, "2")

    def _marked(self, text: str, code: str) -> str:
        text = printable(text)  # so that names cannot contain marks
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_on and text else text
