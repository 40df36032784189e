"""Comparisons that choose rows of a table: by files' statistics, by pyarrow and by Spark.

This module does not import Spark. A reader applies a condition as early as possible: it does not open a file, or read a
row group, whose statistics rule out every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, le
from typing import Any, Literal, NamedTuple

import pyarrow.compute as pc

# Delta truncates the bounds of texts of this length.
SHORT_TEXT = 32
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"==": eq, "<=": le, ">=": ge}


class Condition(NamedTuple):
    """A comparison that a row's column must meet; null meets only `is null`. `value` of "in": a list."""

    column: str
    comparison: Literal["==", "<=", ">=", "in", "is null", "is not null"]
    value: Any = None

    def of(self, field: Any, literal: Callable[[Any], Any] = lambda value: value) -> Any:
        """The comparison of `field`, an expression of pyarrow or a column of Spark, with the value as `literal`."""
        if self.comparison == "in":
            return field.isin(self.value)
        if self.comparison.startswith("is"):
            names = ("isNull", "isNotNull") if hasattr(field, "isNull") else ("is_null", "is_valid")
            return getattr(field, names[self.comparison == "is not null"])()
        return _COMPARE[self.comparison](field, literal(self.value))

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """Whether a file with these bounds (None: unknown) may hold a row that meets it.

        Only bounds of whole numbers and of short texts can rule it out. Bounds of long texts may be truncated, and
        those of times are texts in Delta's log.
        """
        if self.comparison.startswith("is"):
            return True
        wanted: list[Any] = self.value if self.comparison == "in" else [self.value]
        values = (*wanted, least, greatest)
        if not all(isinstance(value, int) for value in values) and not all(map(_is_short_text, values)):
            return True
        if self.comparison == "<=":
            return bool(least <= self.value)
        if self.comparison == ">=":
            return bool(greatest >= self.value)
        return any(least <= value <= greatest for value in wanted)


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < SHORT_TEXT


def expression_of(conditions: Sequence[Condition]) -> pc.Expression | None:
    """All conditions as one expression of pyarrow; None: there is no condition."""
    return reduce(and_, [each.of(pc.field(each.column)) for each in conditions]) if conditions else None


def all_may_hold(conditions: Iterable[Condition], bound: Callable[[str, str], Any]) -> bool:
    """Whether a file may hold a row that meets all of them; `bound("minValues", column)` is from Delta's log."""
    return all(each.may_hold(bound("minValues", each.column), bound("maxValues", each.column)) for each in conditions)


def partitions_in_lots(rows: Mapping[int, int], at_once: int) -> Iterator[Condition]:
    """Conditions that divide offsets partitions (with their number of rows), in order, into lots of `at_once` rows
    or of one partition."""
    lot: list[int] = []
    for number in sorted(rows):
        if lot and sum(rows[each] for each in lot) + rows[number] > at_once:
            yield Condition("offsets_partition", "in", lot)
            lot = []
        lot.append(number)
    if lot:
        yield Condition("offsets_partition", "in", lot)
