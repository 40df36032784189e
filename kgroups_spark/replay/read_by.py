"""Which audit read each log offset: the audit_id of rows that are rebuilt from history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.tables.rows import with_columns

# A group whose state was corrected before a log offset.
Corrected = tuple[int, int, str]


@dataclass(frozen=True)
class ReadBy:
    """The ledger's spans, as plain arrays that can be sent to tasks.

    `corrected`: the audit by (offsets_partition, log_offset, group_id), if a correction left versions at the end of the
    log without new records in its audit. Those versions have no log timestamp.
    """

    _ends: dict[int, NDArray[np.int64]]
    _audit_ids: dict[int, NDArray[np.int64]]
    corrected: dict[Corrected, int] = field(default_factory=dict)

    @classmethod
    def of(cls, read: pa.Table) -> ReadBy:
        """From the spans that finished audits read (ledger_rows.what_was_read)."""
        columns = [read[name].to_numpy() for name in ("offsets_partition", "audit_id", "start_offset", "end_offset")]
        numbers, audit_ids, starts, ends = columns
        in_order = np.lexsort((audit_ids, numbers))
        in_order = in_order[ends[in_order] > starts[in_order]]
        partitions, first = np.unique(numbers[in_order], return_index=True)
        spans = np.split(in_order, first[1:]) if len(partitions) else []
        of_partition = dict(zip(partitions.tolist(), spans, strict=True))
        return cls(
            {number: ends[span] for number, span in of_partition.items()},
            {number: audit_ids[span] for number, span in of_partition.items()},
        )

    def has_read(self, audit_id: int, offsets_partition: int) -> bool:
        """Whether the audit read new records of the partition."""
        return audit_id in self._audit_ids.get(offsets_partition, ())

    def and_corrected(self, corrections: pa.Table) -> ReadBy:
        """With the corrections among these rows of checkpoints whose audits read no new records of the partition."""
        groups = corrections.filter(pc.field("entry_type") == "group")
        columns = ("offsets_partition", "log_offset", "group_id", "audit_id")
        rows = zip(*(groups.column(name).to_pylist() for name in columns), strict=True)
        found = {(number, at - 1, group): by for number, at, group, by in rows if not self.has_read(by, number)}
        return replace(self, corrected=found)

    def with_audit_ids(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """Rows of one table and one offsets partition, with the audits that read them as audit_id."""
        if not rows.num_rows:
            return rows
        number = int(rows.column("offsets_partition")[0].as_py())
        audit_ids = self._at(number, rows.column("log_offset").to_numpy())
        if self.corrected:
            self._put_corrected(number, rows, audit_ids)
        return with_columns(rows, audit_id=pa.array(audit_ids))

    def _at(self, number: int, log_offset: NDArray[np.int64]) -> NDArray[np.int64]:
        ends = self._ends[number]
        # An offset in a gap counts with the span after it, one after the last end with the last span.
        at = np.minimum(np.searchsorted(ends, log_offset, side="right"), len(ends) - 1)
        return self._audit_ids[number][at].copy()

    def _put_corrected(self, number: int, rows: pa.RecordBatch | pa.Table, audit_ids: NDArray[np.int64]) -> None:
        untimed = np.flatnonzero(pc.is_null(rows.column("log_timestamp")).to_numpy(zero_copy_only=False))
        offsets, groups = rows.column("log_offset"), rows.column("group_id")
        for row in untimed.tolist():
            by = self.corrected.get((number, offsets[row].as_py(), groups[row].as_py()))
            audit_ids[row] = audit_ids[row] if by is None else by
