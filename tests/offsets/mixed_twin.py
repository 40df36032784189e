"""The slow twin of mixed commits: every commit looked at by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

Row = dict[str, Any]


class Mixed(NamedTuple):
    """The first partition of a group that was committed in both ways, with its last commit."""

    group_id: str
    topic: str
    partition: int
    transactional_commits: int
    plain_commits: int
    partitions: int
    log_offset: int


def mixed_of(offset_commits: Iterable[Row]) -> list[Mixed]:
    """Groups with a partition that rows of offset_commits commit in a transaction, and twice without: the first one."""
    slots = defaultdict(list)
    for row in offset_commits:
        if row["committed_offset"] is not None:
            slots[row["group_id"], row["topic"], row["partition"]].append(row)
    found = defaultdict(list)
    for slot, rows in sorted(slots.items(), key=lambda each: each[0]):
        transactional = sum(row["is_transactional"] for row in rows)
        if transactional and len(rows) - transactional >= 2:
            newest = max(row["log_offset"] for row in rows)
            found[slot[0]].append((*slot, transactional, len(rows) - transactional, newest))
    return [Mixed(*slots[0][:5], len(slots), slots[0][5]) for slots in found.values()]
