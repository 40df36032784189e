"""SQL text cut into statements, and the lines with a point that are for the prompt itself."""

from __future__ import annotations

import re

# A text, a quoted name, a comment, or what ends a statement, which alone has a group. What is open reaches to the end.
_PIECE = re.compile(r"""'(?:[^']|'')*(?:'|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|--[^\n]*|/\*.*?(?:\*/|$)|(;)""", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|$)", re.DOTALL)


def statements(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, without it, and what stands behind the last one; none is empty, and
    a rest of comments alone is none."""
    found, start = [], 0
    for piece in _PIECE.finditer(text):
        if piece[1]:
            found.append(text[start : piece.start()].strip())
            start = piece.end()
    rest = text[start:].strip()
    return [statement for statement in found if _says_something(statement)], rest if _says_something(rest) else ""


def _says_something(statement: str) -> bool:
    return bool(_COMMENT.sub("", statement).strip())
