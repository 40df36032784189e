"""Which groups hold offsets at a log offset, looked up in columns (coordinator.groups.HeldOffsets)."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pyarrow as pa

from kgroups_spark.offsets.numbers import starts_of
from kgroups_spark.offsets.records import codes, column, flags


class HeldByColumns:
    """Whether groups hold offsets at the log offset last given to `at`. `holdings`: rows of HOLDINGS, sorted by group
    and log offset."""

    def __init__(self, holdings: pa.Table) -> None:
        holdings = holdings.unify_dictionaries()
        self._since = column(holdings, "since").tolist()
        self._committed, self._pending = (flags(holdings, name).tolist() for name in ("has_committed", "has_pending"))
        starts = np.flatnonzero(starts_of(codes(holdings, "group_id"))).tolist()
        names = holdings.column("group_id").take(pa.array(starts, pa.int64())).to_pylist()
        ends = [*starts[1:], len(holdings)]
        self._rows = dict(zip(names, zip(starts, ends, strict=False), strict=True))
        self._place = -1

    def at(self, log_offset: int) -> None:
        """Moves to the state after the record at `log_offset`."""
        self._place = log_offset

    def has_committed(self, group_id: str) -> bool:
        row = self._row(group_id)
        return row is not None and self._committed[row]

    def has_pending(self, group_id: str) -> bool:
        row = self._row(group_id)
        return row is not None and self._pending[row]

    def _row(self, group_id: str) -> int | None:
        start, end = self._rows.get(group_id, (0, 0))
        row = bisect_right(self._since, self._place, start, end) - 1
        return row if row >= start and end else None
