"""The names that a mistyped one was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?` with at most three known names like `word`, whatever its case; else an empty text."""
    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower_case, n=3, cutoff=0.6)
    if not near:
        return ""
    return f"; did you mean {' or '.join(by_lower_case[name] for name in near)}?"
