"""Ranges of slots: a shard with many commits is folded range by range, because slots do not depend on each other."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.offsets.numbers import Flags
from kgroups_spark.offsets.records import column
from kgroups_spark.tables.arrays import flags, is_given
from kgroups_spark.tables.rows import where

SLOT = ("group_id", "topic", "partition")


class Border(NamedTuple):
    """A slot at which a range begins or ends; without topic and partition, the place before all slots of the group."""

    group_id: str
    topic: str = ""
    partition: int = int(np.iinfo(np.int32).min)


# Before all slots.
FIRST = Border("")


class SlotRange(NamedTuple):
    """Slots from `low` (inclusive) to `high` (exclusive), by group, topic and partition; None: no bound."""

    low: Border | None = None
    high: Border | None = None

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows of these slots."""
        if self == EVERY_SLOT or not len(rows):
            return rows
        has = is_given(rows["group_id"])
        if self.low is not None:
            has &= is_from(rows, self.low)
        if self.high is not None:
            has &= ~is_from(rows, self.high)
        return where(rows, has)

    def has(self, slot: Border) -> bool:
        return (self.low is None or slot >= self.low) and (self.high is None or slot < self.high)

    def both(self, other: SlotRange) -> SlotRange:
        """The slots in both ranges, of which the other one divides this one."""
        return SlotRange(other.low or self.low, other.high or self.high)


EVERY_SLOT = SlotRange()
# A range and columns -> its rows, in any number of tables.
ReadRange = Callable[[SlotRange, Sequence[str]], Iterable[pa.Table]]


def of_group(group_id: str) -> SlotRange:
    """All slots of a group: no text is between it and the same with a zero."""
    return SlotRange(Border(group_id), Border(group_id + "\0"))


def is_from(rows: pa.Table, border: Border) -> Flags:
    """Whether each row's slot is the border or comes after it; either for a row without a group."""
    group = _compared(rows.column("group_id"), border.group_id)
    found = group > 0
    same = np.flatnonzero(group == 0)
    if len(same):
        some = rows.select(SLOT[1:]).take(pa.array(same))
        topic = _compared(some.column("topic"), border.topic)
        found[same] = (topic > 0) | ((topic == 0) & (column(some, "partition") >= border.partition))
    return found


def from_border(border: Border) -> pc.Expression:
    """The same as a condition for rows of files."""
    group_id, topic, partition = map(pc.field, SLOT)
    in_topic = (topic == border.topic) & (partition >= border.partition)
    return (group_id > border.group_id) | ((group_id == border.group_id) & ((topic > border.topic) | in_topic))


def _compared(texts: pa.ChunkedArray, text: str) -> NDArray[np.int8]:
    """-1, 0 or 1: each of the texts comes before this one, is the same, or comes after it."""
    return np.concatenate([np.zeros(0, np.int8), *(_compared_in(chunk, text) for chunk in texts.chunks)])


def _compared_in(texts: pa.Array, text: str) -> NDArray[np.int8]:
    if isinstance(texts, pa.DictionaryArray):
        # The dictionary has few texts, and the column many rows. The last element is for nulls.
        of_dictionary = np.append(_compared_in(texts.dictionary, text), np.int8(-1))
        of_rows: NDArray[np.int8] = of_dictionary[texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
        return of_rows
    after, before = flags(pc.greater(texts, text)), flags(pc.less(texts, text))
    found: NDArray[np.int8] = after.astype(np.int8) - before
    return found


def ranges_between(borders: Iterable[Border]) -> list[SlotRange]:
    """The ranges between these borders, and those below and above.

    [Border("b"), Border("f", "t", 1)]  ->  below b, from b to before f's t-1, from there on
    """
    edges = [None, *sorted(borders), None]
    return [SlotRange(low, high) for low, high in itertools.pairwise(edges)]


def ranges_of(read: ReadRange, at_once: int) -> list[SlotRange]:
    """Ranges with about `at_once` rows each: of whole groups, and of slots where one group has more."""
    sizes: Counter[Border] = Counter()
    for rows in read(EVERY_SLOT, SLOT[:1]):
        sizes.update(_rows_by_group(rows.column("group_id")))
    for large in [border for border, rows in sizes.items() if rows > at_once]:
        del sizes[large]
        for rows in read(of_group(large.group_id), SLOT):
            sizes.update(_rows_by_slot(rows))
    return ranges_between(_borders(sizes, at_once))


def _borders(sizes: Mapping[Border, int], at_once: int) -> list[Border]:
    borders, rows = [], 0
    for border in sorted(sizes):
        if rows and rows + sizes[border] > at_once:
            borders.append(border)
            rows = 0
        rows += sizes[border]
    return borders


def _rows_by_group(group_ids: pa.ChunkedArray) -> dict[Border, int]:
    counts = group_ids.unify_dictionaries().value_counts().to_pylist()
    return {Border(each["values"]): each["counts"] for each in counts}


def _rows_by_slot(rows: pa.Table) -> dict[Border, int]:
    texts = [rows.column(name).cast(pa.string()) for name in SLOT[:2]]
    plain = pa.table([*texts, rows.column("partition")], list(SLOT))
    counts = plain.group_by(list(SLOT)).aggregate([([], "count_all")])
    borders = map(Border, *(counts.column(name).to_pylist() for name in SLOT))
    return dict(zip(borders, counts.column("count_all").to_pylist(), strict=True))
