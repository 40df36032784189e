"""SQL text split into statements and dot commands, which are for the prompt itself.

`duckdb.extract_statements` cannot do it: it refuses the whole text for one mistake, for a line with a dot, and for a
last statement that is still being typed. Spark has another dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

# The gap between statements, and a line for the prompt itself, which is the only group.
_BETWEEN = re.compile(r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:([.\\][^\n]*)(?:\n|$))?", re.DOTALL)
_OPEN_COMMENT = re.compile(r"/\*.*", re.DOTALL)


def statements(text: str, dialect: str = "duckdb") -> tuple[list[str], str]:
    """The parts of a text, in order, and the rest after the last semicolon. Parts are statements, without their
    semicolon, and dot (or backslash) commands between statements, which need none. No part is empty, and a rest of
    comments alone is empty. `dialect`: duckdb or spark."""
    found: list[str] = []
    start, ends = 0, _ends(text, 0, dialect)
    while True:
        between = _BETWEEN.match(text, start)
        assert between is not None  # it also matches the empty text
        start = between.end()
        if between[1]:
            found.append(between[1].strip())
            ends = _ends(text, start, dialect)
            continue
        end = next((end for end in ends if end >= start), None)
        if end is None:
            rest = text[start:].strip()
            return found, "" if _OPEN_COMMENT.fullmatch(rest) else rest
        found.append(text[start:end].strip())
        start = end + 1


def _ends(text: str, start: int, dialect: str) -> Iterator[int]:
    """The positions of semicolons outside of texts, names and comments."""
    # Imported here: otherwise every command would be a third of a second slower.
    from sqlglot import Dialect, TokenError, TokenType

    tokenizer = Dialect.get_or_raise(dialect).tokenizer()
    with suppress(TokenError):  # the last text or name is not closed: only the part before it counts
        tokenizer.tokenize(text[start:])
    return (start + token.start for token in tokenizer.tokens if token.token_type == TokenType.SEMICOLON)


def is_for_prompt(statement: str) -> bool:
    """Whether it is a dot command, not SQL."""
    return statement.startswith((".", "\\"))
