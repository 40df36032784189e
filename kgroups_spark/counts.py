"""Counts and sizes as a person reads them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def counted(number: int, noun: str) -> str:
    """`1 group`, `35,230 groups`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def group_count(rows: Iterable[Mapping[str, Any]]) -> int:
    """The number of groups in these rows. One that is in two offsets partitions has rows of both, and is one group."""
    return len({row["group_id"] for row in rows})


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, and the number of others: `a, b, c and 5 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def sized(size_bytes: int) -> str:
    """`980 B`, `12.3 kB`, `738.2 MB`, `2,140.0 MB`, in powers of ten, like sizes of disks."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1e3:.1f} kB"
    return f"{size_bytes / 1e6:,.1f} MB"
