"""Rows of history that the log no longer bears out: it was cut back after them, and went on with other records.

History is only appended to, so these rows stay where they are. The ledger says which they are (`replaced_ranges`, all
that were ever found), and every reader leaves them out in one place: `Lake.read` and `Lake.rows`, and what DuckDB is
given as a table (duckdb_views.py). A lake whose log was never cut back pays one look at the ledger's last row.

    audit 4 read offsets 40 to 99; the log was cut back to 60; audit 5 found it and read on from 60
    -> {offsets_partition: 3, from_offset: 60, to_offset: 100, audit_id: 5}: rows of audits before 5 from 60 on
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from numpy.typing import NDArray

from kgroups_spark.tables.conditions import Condition, expression_of
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN = "replaced_ranges"

# Rows of these are replaced from the range's first offset on.
_BY_PLACE = (*LOG_TABLES, "group_versions", "group_member_versions", "group_events")
# Rows of these tables are replaced, too. A checkpoint belongs to the records before it, a decision to the audit
# `decided_by`.
REPLACEABLE = (*_BY_PLACE, CHECKPOINTS, "previous_offset_expiry")
# Columns of offset_commits that tell of the marker after the row, which may be replaced where the row is not.
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
    """All ranges of a lake, as its last finished audit knows them, and those that the present one has found."""

    ranges: tuple[ReplacedRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @classmethod
    def of(cls, reported: Iterable[Mapping[str, Any]] | None) -> Replaced:
        """From the ledger's column; None: there are none."""
        return cls(tuple(ReplacedRange(**each) for each in reported or ()))

    def and_also(self, ranges: Iterable[ReplacedRange]) -> Replaced:
        """With those of a later audit."""
        return Replaced((*self.ranges, *ranges))

    def first_after(self, offsets_partition: int, audit_id: int) -> int | None:
        """The first offset of the partition that was replaced after the audit; None: nothing was."""
        mine = (r for r in self.ranges if r.offsets_partition == offsets_partition and r.audit_id > audit_id)
        return min((r.from_offset for r in mine), default=None)

    def touches(self, name: str) -> bool:
        """Whether the table may have replaced rows."""
        return bool(self.ranges) and name in REPLACEABLE

    def condition(self, name: str) -> str:
        """SQL of both dialects: whether a row of the table is replaced."""
        return " OR ".join(self._condition(name, each) for each in self.ranges)

    def columns(self, name: str) -> dict[str, str]:
        """SQL of both dialects for columns of rows that stay, which say less than is written there."""
        if name != "offset_commits":
            return {}
        is_gone = " OR ".join(
            f"(offsets_partition = {r.offsets_partition} AND marker_offset >= {r.from_offset} AND "
            f"audit_id < {r.audit_id})"
            for r in self.ranges
        )
        return {column: f"CASE WHEN {is_gone} THEN NULL ELSE {column} END" for column in _OF_MARKER}

    def left_out(self, name: str, rows: DataFrame) -> DataFrame:
        """The table's rows without those that are replaced."""
        if not self.touches(name):
            return rows
        from pyspark.sql import functions as F

        changed = {column: F.expr(sql) for column, sql in self.columns(name).items()}
        return rows.where(f"NOT ({self.condition(name)})").withColumns(changed)

    def parted(self, name: str, rows: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
        """Rows of the table as readers get them, and which of them these do not get: they are as they were."""
        if not self.touches(name):
            return rows, np.zeros(len(rows), np.bool_)
        where = {"is_it": reduce(or_, (self._expression(name, each) for each in self.ranges))}
        found = pa.dataset.dataset(rows).to_table(where)["is_it"].to_numpy()
        if "marker_offset" in rows.column_names and name == "offset_commits":
            rows = self._without_markers(rows, pa.array(~found))
        return rows, found

    def rows_left(
        self, name: str, dataset: pa.dataset.Dataset, columns: Sequence[str] | None, conditions: Sequence[Condition]
    ) -> pa.Table:
        """Rows of a table's dataset that meet the conditions, without those that are replaced."""
        chosen = None if columns is None else list(columns)
        if not self.touches(name):
            return dataset.to_table(chosen, filter=expression_of(conditions))
        on_marker = [each for each in conditions if each.column in _OF_MARKER]
        where = ~reduce(or_, (self._expression(name, each) for each in self.ranges))
        others = expression_of([each for each in conditions if each not in on_marker])
        where = where if others is None else where & others
        if name != "offset_commits":
            return dataset.to_table(chosen, filter=where)
        found = self._without_markers(dataset.to_table(filter=where))
        if on_marker:
            found = found.filter(expression_of(on_marker))
        return found if chosen is None else found.select(chosen)

    def condition_of(self, name: str, offsets_partition: int) -> pc.Expression | None:
        """For pyarrow: whether a row of an offsets partition is replaced; None: none is."""
        mine = [each for each in self.ranges if each.offsets_partition == offsets_partition]
        return reduce(or_, (self._expression(name, each) for each in mine)) if mine and self.touches(name) else None

    def clipped(self, read: pa.Table) -> pa.Table:
        """Rows of `what_was_read` (ledger_rows.py) with the spans as far as they still count."""
        if not self.ranges:
            return read
        at = read.schema.get_field_index("end_offset")
        ends = [
            end if (first := self.first_after(partition, audit_id)) is None else min(end, first)
            for partition, audit_id, end in zip(
                *(read[name].to_pylist() for name in ("offsets_partition", "audit_id", "end_offset")), strict=True
            )
        ]
        return read.set_column(at, "end_offset", pa.array(ends, pa.int64()))

    def _condition(self, name: str, each: ReplacedRange) -> str:
        audit_id = "decided_by" if name == "previous_offset_expiry" else "audit_id"
        is_here = f"offsets_partition = {each.offsets_partition} AND {audit_id} < {each.audit_id}"
        if name != CHECKPOINTS:
            return f"({is_here} AND log_offset >= {each.from_offset})"
        # Rows of another log have partitions and offsets of their own.
        return f"({is_here} AND log_offset > {each.from_offset} AND log IS NULL)"

    def _expression(self, name: str, each: ReplacedRange) -> pc.Expression:
        audit_id = "decided_by" if name == "previous_offset_expiry" else "audit_id"
        is_here = (pc.field("offsets_partition") == each.offsets_partition) & (pc.field(audit_id) < each.audit_id)
        if name != CHECKPOINTS:
            return is_here & (pc.field("log_offset") >= each.from_offset)
        return is_here & (pc.field("log_offset") > each.from_offset) & pc.field("log").is_null()

    def _without_markers(self, commits: pa.Table, chosen: pa.Array | None = None) -> pa.Table:
        """Rows of offset_commits that know no marker that is replaced; of others than the `chosen` ones nothing is
        changed."""
        is_gone = pa.array([False] * len(commits), pa.bool_())
        for each in self.ranges:
            is_here = pc.equal(commits["offsets_partition"], each.offsets_partition)
            is_here = pc.and_(is_here, pc.less(commits["audit_id"], each.audit_id))
            behind = pc.fill_null(pc.greater_equal(commits["marker_offset"], each.from_offset), False)
            is_gone = pc.or_(is_gone, pc.and_(is_here, behind))
        is_gone = is_gone if chosen is None else pc.and_(is_gone, chosen)
        for name in _OF_MARKER:
            at, field = commits.schema.get_field_index(name), commits.schema.field(name)
            commits = commits.set_column(at, field, pc.if_else(is_gone, pa.scalar(None, field.type), commits[name]))
        return commits


NOTHING = Replaced()
