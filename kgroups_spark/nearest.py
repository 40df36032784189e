"""The names that a mistyped one was probably meant to be."""

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

_AS_NEAR = 0.2  # a name is left out if another one is nearer by more than this


def did_you_mean(word: str, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """`; did you mean a or b?` with at most three known names like `word`, ignoring case, as `spelled` spells them;
    otherwise an empty text."""
    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower_case, n=3, cutoff=0.6)
    if not near:
        return ""
    likeness = [SequenceMatcher(a=name, b=word.lower()).ratio() for name in near]
    near = [name for name, ratio in zip(near, likeness, strict=True) if ratio >= max(likeness) - _AS_NEAR]
    return f"; did you mean {' or '.join(spelled(by_lower_case[name]) for name in near)}?"


def suggested(word: str, known: Sequence[str], aliases: Iterable[str] = ()) -> str:
    """As `did_you_mean`, also of `aliases`; if no name is like `word`, `; use a, b, c` with all known names."""
    return did_you_mean(word, [*known, *aliases]) or f"; use {', '.join(known)}"
