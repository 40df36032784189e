"""SQL text cut into statements, and the lines with a point that are for the prompt itself."""

from __future__ import annotations

import re

# A text, a quoted name, a comment, or what ends a statement, which alone has a group. What is open reaches to the end.
_PIECE = re.compile(r"""'(?:[^']|'')*(?:'|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|--[^\n]*|/\*.*?(?:\*/|$)|(;)""", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|$)", re.DOTALL)


# What stands between statements, and a line for the prompt itself, which alone has a group.
_BETWEEN = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:([.\\][^\n]*)(?:\n|$))?", re.DOTALL)


def statements(text: str) -> tuple[list[str], str]:
    """The parts of a text, in order: statements that end with a semicolon, without it, and lines with a point (or a
    backslash) between statements, which need none; and what stands behind the last one. None is empty, and a rest of
    comments alone is none."""
    found, start = [], 0
    while True:
        between = _BETWEEN.match(text, start)
        assert between is not None  # it matches nothing, too
        if between[1]:
            found.append(between[1].strip())
            start = between.end()
            continue
        end = next((piece for piece in _PIECE.finditer(text, start) if piece[1]), None)
        if end is None:
            rest = text[start:].strip()
            return found, rest if _says_something(rest) else ""
        statement = text[start : end.start()].strip()
        if _says_something(statement):
            found.append(statement)
        start = end.end()


def is_for_prompt(statement: str) -> bool:
    """Whether it is a line with a point, not SQL."""
    return statement.startswith((".", "\\"))


def _says_something(statement: str) -> bool:
    return bool(_COMMENT.sub("", statement).strip())
