"""Replaced rows of history: the log was cut back after an audit had read them, and continued with other records.

History is append-only, so these rows stay in the tables. The ledger lists them (`replaced_ranges`, all ranges that
no later one covers), and readers leave them out in one place each: `Lake.read` and `Lake.rows`, and the tables for
DuckDB (sql/by_duckdb.py). If the log was never cut back, this costs one read of the ledger's last row.

    audit 4 read offsets 40 to 99; the log was cut back to 60; audit 5 detected that and read on from 60
    -> {offsets_partition: 3, from_offset: 60, to_offset: 100, audit_id: 5}: rows of audits before 5 from 60 on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from numpy.typing import NDArray

from kgroups_spark.messages.coordinator_records import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.tables.columns import Condition, expression_of, rows_that_meet
from kgroups_spark.tables.rows import with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


COLUMN = "replaced_ranges"

# Rows of these are replaced from the range's first offset on.
_BY_PLACE = (*LOG_TABLES, "group_versions", "group_member_versions", "group_events")
# The same of the other logs, by the logs of which the table has rows.
STATE_LOGS = {
    "share_group_state_records": (SHARE_LOG.topic,),
    "transaction_state_records": (TRANSACTION_LOG.topic,),
    "state_quarantine": (SHARE_LOG.topic, TRANSACTION_LOG.topic),
    "state_events": (SHARE_LOG.topic, TRANSACTION_LOG.topic),
}
# Also replaced here. A checkpoint belongs to the records before its offset, a decision to `decided_by`.
REPLACEABLE = (*_BY_PLACE, CHECKPOINTS, "previous_offset_expiry", *STATE_LOGS)
# Columns of offset_commits about the later marker, which may be replaced although the row is not.
_OF_MARKER = ("outcome", "marker_offset")


class ReplacedRange(NamedTuple):
    """Offsets `from_offset` .. `to_offset` - 1 of a topic (None: __consumer_offsets), read before `audit_id`."""

    offsets_partition: int
    from_offset: int
    to_offset: int
    audit_id: int
    topic: str | None = None


@dataclass(frozen=True)
class Replaced:
    """The replaced ranges of a lake: those of its last finished audit, and those that the present audit has found."""

    ranges: tuple[ReplacedRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @classmethod
    def of(cls, reported: Iterable[Mapping[str, Any]] | None) -> Replaced:
        """From the values of the ledger's column; None: there are none."""
        return cls(tuple(ReplacedRange(**each) for each in reported or ()))

    def and_also(self, ranges: Iterable[ReplacedRange]) -> Replaced:
        """These ranges and those of a later audit, without those that a later one covers."""
        return Replaced(tuple(_uncovered((*self.ranges, *ranges))))

    def first_after(self, offsets_partition: int, audit_id: int) -> int | None:
        """The first offset of the offsets partition that was replaced after the audit; None: no offset was."""
        mine = (each for each in self.ranges if each.offsets_partition == offsets_partition and each.topic is None)
        return min((each.from_offset for each in mine if each.audit_id > audit_id), default=None)

    def touches(self, name: str) -> bool:
        """Whether the table may have replaced rows."""
        return name in REPLACEABLE and any(self.steps.get(topic) for topic in STATE_LOGS.get(name, (None,)))

    @cached_property
    def steps(self) -> dict[str | None, dict[int, tuple[list[int], list[int]]]]:
        """By topic and partition: ascending offsets, and the newest audit that replaced the rows from each on."""
        found: dict[str | None, dict[int, tuple[list[int], list[int]]]] = {}
        for each in _uncovered(self.ranges):
            offsets, audits = found.setdefault(each.topic, {}).setdefault(each.offsets_partition, ([], []))
            offsets.append(each.from_offset)
            audits.append(each.audit_id)
        return found

    def is_replaced(self, name: str, rows: pa.Table, place: str = "log_offset") -> NDArray[np.bool_]:
        """Which rows are replaced, by the offset in the column `place`: those that an audit read before the newest one
        that replaced this offset. `sql` says the same."""
        found = np.zeros(len(rows), np.bool_)
        numbers, audits, places = (
            pc.fill_null(rows[column], -1).to_numpy() for column in (partition_of(name), _audit_of(name), place)
        )
        for topic in STATE_LOGS.get(name, (None,)):
            steps = self.steps.get(topic, {})
            is_of_log = (
                pc.equal(rows["log"], topic).to_numpy() if _log_of(topic, name) else np.ones(len(rows), np.bool_)
            )
            for number in set(np.unique(numbers).tolist()) & steps.keys():
                offsets, newest = steps[number]
                mine = np.flatnonzero((numbers == number) & is_of_log)
                step = np.searchsorted(offsets, places[mine] - (name == CHECKPOINTS), side="right") - 1
                found[mine] = (step >= 0) & (audits[mine] < np.array(newest)[step])
        # Rows of another log have their own partitions and offsets.
        return found & rows["log"].is_null().to_numpy() if name == CHECKPOINTS else found

    def sql(self, name: str, place: str = "log_offset") -> str:
        """As a condition in SQL of both dialects. A row is compared with its partition's ranges until one fits."""
        found, when = list[str](), f"WHEN {place} >= {{}} THEN {{}}"
        for topic in STATE_LOGS.get(name, (None,)):
            newest = " ".join(
                f"WHEN {number} THEN CASE {' '.join(reversed([*map(when.format, *steps)]))} END"
                for number, steps in self.steps.get(topic, {}).items()
            )
            if newest:
                of_log = f"{log} AND " if (log := _log_of(topic, name)) else ""
                found.append(f"{of_log}coalesce(CASE {partition_of(name)} {newest} END, 0) > {_audit_of(name)}")
        return " OR ".join(found) or "false"

    def condition(self, name: str) -> str:
        """A condition in SQL of both dialects: true for replaced rows of the table."""
        if name == CHECKPOINTS:
            return f"log IS NULL AND {self.sql(name, 'log_offset - 1')}"
        return self.sql(name)

    def columns(self, name: str) -> dict[str, str]:
        """SQL of both dialects for columns that become null in rows that stay: those about a replaced marker."""
        of_marker = _OF_MARKER if name == "offset_commits" else ()
        return {
            column: f"CASE WHEN {self.sql(name, 'marker_offset')} THEN NULL ELSE {column} END" for column in of_marker
        }

    def left_out(self, name: str, rows: DataFrame) -> DataFrame:
        """The table's rows without those that are replaced."""
        if not self.touches(name):
            return rows
        from pyspark.sql import functions as F

        changed = {column: F.expr(sql) for column, sql in self.columns(name).items()}
        return rows.where(f"NOT ({self.condition(name)})").withColumns(changed)

    def counting(self, name: str, rows: pa.Table) -> pa.Table:
        """The table's rows without those that are replaced."""
        return rows.filter(pa.array(~self.is_replaced(name, rows))) if self.touches(name) else rows

    def rows_left(
        self, name: str, dataset: pa.dataset.Dataset, columns: Sequence[str] | None, conditions: Sequence[Condition]
    ) -> pa.Table:
        """Rows of a table's dataset that meet the conditions, without those that are replaced."""
        chosen = dataset.schema.names if columns is None else list(columns)
        if not self.touches(name):
            # By default 16 batches of each file are read ahead: 100 MB more for a million rows of which few are chosen.
            return dataset.to_table(chosen, filter=expression_of(conditions), batch_readahead=1)
        of_marker = _OF_MARKER if name == "offset_commits" else ()
        on_marker = [each for each in conditions if each.column in of_marker]
        others = [each for each in conditions if each not in on_marker]
        has_log = name == CHECKPOINTS or len(STATE_LOGS.get(name, ())) > 1
        decides = [partition_of(name), _audit_of(name), "log_offset", *(["log"] if has_log else ()), *of_marker]
        found = dataset.to_table([*dict.fromkeys([*chosen, *decides])], filter=expression_of(others))
        found = self.counting(name, found)
        if of_marker:
            is_gone = pa.array(self.is_replaced(name, found, "marker_offset"))
            found = with_columns(found, **{each: pc.if_else(is_gone, None, found[each]) for each in of_marker})
        return rows_that_meet(found, on_marker).select(chosen)

    def clipped(self, read: pa.Table) -> pa.Table:
        """Rows of `what_was_read` (ledger.py) with spans cut to the offsets that still count."""
        if not self.ranges:
            return read
        ends = [
            end if (first := self.first_after(partition, audit_id)) is None else min(end, first)
            for partition, audit_id, end in zip(
                *(read[name].to_pylist() for name in ("offsets_partition", "audit_id", "end_offset")), strict=True
            )
        ]
        return with_columns(read, end_offset=pa.array(ends, pa.int64()))


def _uncovered(ranges: Iterable[ReplacedRange]) -> Iterator[ReplacedRange]:
    """The ranges by partition and offset, without those inside a later audit's, which replaces the same rows."""
    last: ReplacedRange | None = None
    for each in sorted(ranges, key=lambda one: (*_place(one), one.from_offset, -one.audit_id)):
        if last is None or _place(last) != _place(each) or last.audit_id < each.audit_id:
            yield each
            last = each


def _place(of: ReplacedRange) -> tuple[str, int]:
    return of.topic or "", of.offsets_partition


def partition_of(name: str) -> str:
    return "state_partition" if name in STATE_LOGS else "offsets_partition"


def _log_of(topic: str | None, name: str) -> str | None:
    """The condition in SQL of rows of the log, in a table that has rows of two; None: it has rows of one."""
    return f"log = '{topic}'" if len(STATE_LOGS.get(name, ())) > 1 else None


def _audit_of(name: str) -> str:
    """The column with the audit that read a row, or decided by it."""
    return "decided_by" if name == "previous_offset_expiry" else "audit_id"


NOTHING = Replaced()
