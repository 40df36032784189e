"""Replaced rows of history: the log was cut back after an audit had read them, and continued with other records.

History is append-only, so these rows stay in the tables. The ledger lists them (`replaced_ranges`, all ranges ever
found), and readers leave them out in one place each: `Lake.read` and `Lake.rows`, and the tables for DuckDB
(duckdb_views.py). If the log was never cut back, this costs one read of the ledger's last row.

    audit 4 read offsets 40 to 99; the log was cut back to 60; audit 5 detected that and read on from 60
    -> {offsets_partition: 3, from_offset: 60, to_offset: 100, audit_id: 5}: rows of audits before 5 from 60 on
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from numpy.typing import NDArray

from kgroups_spark.tables.conditions import AnyOf, Condition, expression_of, expression_of_any, sql_of_any
from kgroups_spark.tables.rows import with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN = "replaced_ranges"

# Rows of these are replaced from the range's first offset on.
_BY_PLACE = (*LOG_TABLES, "group_versions", "group_member_versions", "group_events")
# Rows of these tables are replaced, too. A checkpoint belongs to the records before it, a decision to the audit
# `decided_by`.
REPLACEABLE = (*_BY_PLACE, CHECKPOINTS, "previous_offset_expiry")
# Columns of offset_commits about the later marker, which may be replaced although the row is not.
_OF_MARKER = ("outcome", "marker_offset")


@dataclass(frozen=True)
class ReplacedRange:
    """Offsets `from_offset` to `to_offset` - 1 of an offsets partition as audits before `audit_id` read them."""

    offsets_partition: int
    from_offset: int
    to_offset: int
    audit_id: int


@dataclass(frozen=True)
class Replaced:
    """All replaced ranges of a lake: those of its last finished audit, and those that the present audit has found."""

    ranges: tuple[ReplacedRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @classmethod
    def of(cls, reported: Iterable[Mapping[str, Any]] | None) -> Replaced:
        """From the values of the ledger's column; None: there are none."""
        return cls(tuple(ReplacedRange(**each) for each in reported or ()))

    def and_also(self, ranges: Iterable[ReplacedRange]) -> Replaced:
        """These ranges and those of a later audit."""
        return Replaced((*self.ranges, *ranges))

    def first_after(self, offsets_partition: int, audit_id: int) -> int | None:
        """The first offset of the partition that was replaced after the audit; None: no offset was."""
        mine = (r for r in self.ranges if r.offsets_partition == offsets_partition and r.audit_id > audit_id)
        return min((r.from_offset for r in mine), default=None)

    def touches(self, name: str) -> bool:
        """Whether the table may have replaced rows."""
        return bool(self.ranges) and name in REPLACEABLE

    def conditions(self, name: str, place: str = "log_offset") -> AnyOf:
        """Which rows are replaced, by the offset in the column `place`: those that meet all conditions of one range.

        This is the one place that knows. Everything below is this in the words of an engine.
        """
        decided = "decided_by" if name == "previous_offset_expiry" else "audit_id"
        # A checkpoint belongs to the records before it. Rows of another log have their own partitions and offsets.
        of_log, first = ([Condition("log", "is null")], 1) if name == CHECKPOINTS else ([], 0)
        return [
            [
                Condition("offsets_partition", "==", each.offsets_partition),
                Condition(decided, "<=", each.audit_id - 1),
                Condition(place, ">=", each.from_offset + first),
                *of_log,
            ]
            for each in self.ranges
        ]

    def condition(self, name: str) -> str:
        """A condition in SQL of both dialects: true for replaced rows of the table."""
        return sql_of_any(self.conditions(name))

    def columns(self, name: str) -> dict[str, str]:
        """SQL of both dialects for columns that become null in rows that stay: those about a replaced marker."""
        is_gone = sql_of_any(self.conditions(name, "marker_offset"))
        of_marker = _OF_MARKER if name == "offset_commits" else ()
        return {column: f"CASE WHEN {is_gone} THEN NULL ELSE {column} END" for column in of_marker}

    def left_out(self, name: str, rows: DataFrame) -> DataFrame:
        """The table's rows without those that are replaced."""
        if not self.touches(name):
            return rows
        from pyspark.sql import functions as F

        changed = {column: F.expr(sql) for column, sql in self.columns(name).items()}
        return rows.where(f"NOT ({self.condition(name)})").withColumns(changed)

    def parted(self, name: str, rows: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
        """Rows of the table as readers get them, and a mask of the replaced ones, which are returned unchanged."""
        if not self.touches(name):
            return rows, np.zeros(len(rows), np.bool_)
        is_replaced = expression_of_any(self.conditions(name))
        found = pa.dataset.dataset(rows).to_table({"is_it": is_replaced})["is_it"].to_numpy()
        fields = self._fields(name, rows.column_names, ~is_replaced)
        return pa.dataset.dataset(rows).to_table(fields), found

    def rows_left(
        self, name: str, dataset: pa.dataset.Dataset, columns: Sequence[str] | None, conditions: Sequence[Condition]
    ) -> pa.Table:
        """Rows of a table's dataset that meet the conditions, without those that are replaced."""
        chosen = None if columns is None else list(columns)
        if not self.touches(name):
            return dataset.to_table(chosen, filter=expression_of(conditions))
        on_marker = [each for each in conditions if each.column in _OF_MARKER]
        where = ~expression_of_any(self.conditions(name))
        others = expression_of([each for each in conditions if each not in on_marker])
        names = dataset.schema.names if chosen is None else [*chosen, *{each.column for each in on_marker} - {*chosen}]
        found = dataset.to_table(self._fields(name, names), filter=where if others is None else where & others)
        found = found.filter(expression_of(on_marker)) if on_marker else found
        return found if chosen is None else found.select(chosen)

    def condition_of(self, name: str, offsets_partition: int) -> pc.Expression | None:
        """A condition for pyarrow: true for replaced rows of an offsets partition; None: no row is replaced."""
        mine = Replaced(tuple(each for each in self.ranges if each.offsets_partition == offsets_partition))
        return expression_of_any(mine.conditions(name)) if mine.touches(name) else None

    def clipped(self, read: pa.Table) -> pa.Table:
        """Rows of `what_was_read` (ledger_rows.py) with spans cut to the offsets that still count."""
        if not self.ranges:
            return read
        ends = [
            end if (first := self.first_after(partition, audit_id)) is None else min(end, first)
            for partition, audit_id, end in zip(
                *(read[name].to_pylist() for name in ("offsets_partition", "audit_id", "end_offset")), strict=True
            )
        ]
        return with_columns(read, end_offset=pa.array(ends, pa.int64()))

    def _fields(
        self, name: str, columns: Sequence[str], where: pc.Expression | None = None
    ) -> dict[str, pc.Expression]:
        """The columns; those about a replaced marker are null (`where` true; None: in all rows)."""
        fields = {column: pc.field(column) for column in columns}
        if name == "offset_commits":
            is_gone = pc.coalesce(expression_of_any(self.conditions(name, "marker_offset")), pc.scalar(False))
            is_gone = is_gone if where is None else is_gone & where
            fields |= {each: pc.if_else(~is_gone, pc.field(each), None) for each in _OF_MARKER if each in fields}
        return fields


NOTHING = Replaced()
