"""The number of partitions of `__consumer_offsets` if it is not given: the only number that fits every group's hash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kgroups_spark.messages.group_partition import java_hash

# The largest number that is tried; Kafka's default is 50.
MOST_PARTITIONS = 2000


class FittingCounts:
    """The numbers of partitions under which all groups seen so far hash to the partition."""

    def __init__(self, offsets_partition: int) -> None:
        self._offsets_partition = offsets_partition
        self._counts = np.arange(offsets_partition + 1, MOST_PARTITIONS + 1)

    def see(self, group_ids: Iterable[str]) -> None:
        hashes = np.array([java_hash(group_id) for group_id in group_ids], np.int64)
        magnitudes = np.where(hashes == -(1 << 31), 0, np.abs(hashes))
        for magnitude in np.unique(magnitudes).tolist():
            self._counts = self._counts[magnitude % self._counts == self._offsets_partition]

    def rest(self) -> list[int]:
        return [int(count) for count in self._counts]


def fitting_partition_counts(group_ids: Iterable[str], offsets_partition: int) -> list[int]:
    """The numbers of partitions under which all these groups hash to the partition."""
    fitting = FittingCounts(offsets_partition)
    fitting.see(group_ids)
    return fitting.rest()


def fitting_by_partition(groups: Iterable[tuple[int, str]]) -> list[list[int]]:
    """For each offsets partition of the (offsets_partition, group_id) pairs the numbers that fit all of its groups."""
    by_partition: dict[int, list[str]] = {}
    for number, group_id in groups:
        by_partition.setdefault(number, []).append(group_id)
    return [fitting_partition_counts(group_ids, number) for number, group_ids in by_partition.items()]


def partition_count(fitting: Iterable[Iterable[int]]) -> int | None:
    """The only number in all of these; None: there is none, or more than one."""
    common = _common(fitting)
    return next(iter(common)) if len(common) == 1 else None


def is_ambiguous(fitting: Iterable[Iterable[int]]) -> bool:
    """Whether more than one number is in all of these, so that more groups may decide."""
    return len(_common(fitting)) > 1


def fits_none(fitting: Sequence[Iterable[int]]) -> bool:
    """Whether no number is in all of these: a group or a partition is in the wrong place."""
    return bool(fitting) and not _common(fitting)


def _common(fitting: Iterable[Iterable[int]]) -> set[int]:
    sets = list(map(set, fitting))
    return set.intersection(*sets) if sets else set()
