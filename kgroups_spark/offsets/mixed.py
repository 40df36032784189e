"""Offsets that are committed both in transactions and outside of them, for the finding mixed_commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kgroups_spark.offsets.numbers import starts_of
from kgroups_spark.offsets.records import Commits

# One commit outside of a transaction may be an admin reset.
PLAIN_COMMITS = 2


class Mixed(NamedTuple):
    """The first partition of a group that was committed in both ways, with the number of commits of each kind.

    partitions  number of such partitions of the group
    log_offset  the last commit of this partition
    """

    group_id: str
    topic: str
    partition: int
    transactional_commits: int
    plain_commits: int
    partitions: int
    log_offset: int


def mixed_commits(commits: Commits, saved_rows: int) -> Iterator[Mixed]:
    """Groups with a partition that was committed in a transaction, and without one at least PLAIN_COMMITS times. The
    first `saved_rows` records do not count, and neither do tombstones.

        (g, t, 0) by producer 7 @1, without @3, without @4   ->  Mixed("g", "t", 0, 1, 2, 1, 4)
    """
    row = saved_rows + np.flatnonzero(~commits.is_tombstone[saved_rows:])
    is_transactional = commits.is_transactional[row]
    if not is_transactional.any():
        return
    slots, slot = commits.slots, commits.slot[row]
    transactional = np.bincount(slot[is_transactional], minlength=len(slots))
    plain = np.bincount(slot, minlength=len(slots)) - transactional
    found = np.flatnonzero((transactional > 0) & (plain >= PLAIN_COMMITS))
    # Slots are numbered by group, topic and partition.
    at = np.flatnonzero(starts_of(slots.group[found]))
    first, sizes = found[at], np.diff(np.append(at, len(found)))
    is_first = np.zeros(len(slots), np.bool_)
    is_first[first] = True
    of_first = is_first[slot]
    newest = np.zeros(len(slots), np.int64)
    np.maximum.at(newest, slot[of_first], commits.log_offset[row[of_first]])
    for number, partitions in zip(first.tolist(), sizes.tolist(), strict=True):
        yield Mixed(
            slots.groups[int(slots.group[number])].as_py(),
            slots.topics[int(slots.topic[number])].as_py(),
            int(slots.partition[number]),
            int(transactional[number]),
            int(plain[number]),
            partitions,
            int(newest[number]),
        )
