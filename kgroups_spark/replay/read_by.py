"""Which audit read each log offset: the audit_id of rows that are rebuilt from history."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.tables.rows import with_columns


@dataclass(frozen=True)
class ReadBy:
    """The ledger's spans, as plain arrays that can be sent to tasks."""

    _ends: dict[int, NDArray[np.int64]]
    _audit_ids: dict[int, NDArray[np.int64]]

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

    def with_audit_ids(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """Rows of one table and one offsets partition, with the audits that read them as audit_id."""
        if not rows.num_rows:
            return rows
        number = int(rows.column("offsets_partition")[0].as_py())
        return with_columns(rows, audit_id=pa.array(self._at(number, rows.column("log_offset").to_numpy())))

    def _at(self, number: int, log_offset: NDArray[np.int64]) -> NDArray[np.int64]:
        ends = self._ends[number]
        # An offset in a gap counts with the span after it, one after the last end with the last span.
        at = np.minimum(np.searchsorted(ends, log_offset, side="right"), len(ends) - 1)
        return self._audit_ids[number][at]
