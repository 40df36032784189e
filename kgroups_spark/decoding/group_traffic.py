"""Counts of the records in a range, by group and hour of log time: the rows of `group_traffic`.

Several ranges of one offsets partition may have records of the same group and hour. So a range passes its rows on to
the replay of the partition, which adds them up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.durations import HOUR_MS
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.messages.offset_commits import OffsetCommitColumns
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.times import LAST_MS

NO_HOUR = np.iinfo(np.int64).min

# Summed over rows with the same key.
COUNTS = ("commits", "tombstones", "transactional_commits", "other_records", "bytes")

COMMITS, TOMBSTONES, TRANSACTIONAL_COMMITS, OTHER_RECORDS, BYTES = range(5)


class GroupTraffic:
    """Adds up records by (group, hour); groups are named once, by `group_ids`."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], NDArray[np.int64]] = {}

    def add_chunk(
        self,
        records: RecordColumns,
        commits: OffsetCommitColumns,
        keys: OffsetKeys,
        decoded: list[tuple[int, CoordinatorRecord]],
    ) -> None:
        size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
        self.add_commits(
            keys.groups,
            keys.group[commits.code].astype(np.int64),
            records.timestamp[commits.rows],
            commits.is_tombstone,
            records.is_transactional[commits.rows],
            size[commits.rows],
        )
        for row, record in decoded:
            self.add_record(record.group_id, int(records.timestamp[row]), int(size[row]))

    def add_commits(
        self,
        group_ids: list[str],
        group: NDArray[np.int64],
        timestamp: NDArray[np.int64],
        is_tombstone: NDArray[np.bool_],
        is_transactional: NDArray[np.bool_],
        size_bytes: NDArray[np.int64],
    ) -> None:
        """Adds offset commits of one chunk. `group` indexes `group_ids`; `timestamp` is in epoch ms, -1 for none."""
        if not len(group):
            return
        # The table has one hour for all times beyond a TIMESTAMP, so they count as one.
        hours = np.where(timestamp < 0, NO_HOUR, np.minimum(timestamp, LAST_MS) // HOUR_MS)
        hour_values, hour = (hours[:1], None) if (hours == hours[0]).all() else np.unique(hours, return_inverse=True)
        width = len(group_ids)
        at = group if hour is None else hour * width + group
        size = width * len(hour_values)
        counts = np.zeros((size, 5), np.int64)
        counts[:, COMMITS] = np.bincount(at[~is_tombstone], minlength=size)
        counts[:, TOMBSTONES] = np.bincount(at[is_tombstone], minlength=size)
        counts[:, TRANSACTIONAL_COMMITS] = np.bincount(at[~is_tombstone & is_transactional], minlength=size)
        counts[:, BYTES] = np.bincount(at, weights=size_bytes, minlength=size)
        for row in np.nonzero(counts[:, BYTES])[0].tolist():
            self._add(group_ids[row % width], int(hour_values[row // width]), counts[row])

    def add_record(self, group_id: str, timestamp: int, size_bytes: int) -> None:
        """Adds one record of another type; `timestamp` is in epoch ms, negative for none."""
        row = np.array([0, 0, 0, 1, size_bytes])
        self._add(group_id, NO_HOUR if timestamp < 0 else min(timestamp, LAST_MS) // HOUR_MS, row)

    def _add(self, group_id: str, hour: int, row: NDArray[np.int64]) -> None:
        before = self._counts.get((group_id, hour))
        if before is None:
            self._counts[(group_id, hour)] = row.copy()
        else:
            before += row

    def rows(self) -> Iterator[tuple[str, int | None, list[int]]]:
        """(group id, start of the hour in ms or None, counts in the order of the constants above)."""
        for (group_id, hour), counts in self._counts.items():
            yield group_id, None if hour == NO_HOUR else hour * HOUR_MS, counts.tolist()

    def batch(self, **constants: int) -> pa.RecordBatch:
        """Rows of `group_traffic`; `constants` are columns with the same value in all rows."""
        rows = [(group_id, hour, *counts) for group_id, hour, counts in self.rows()]
        return table_batch("group_traffic", None, rows, **constants)


def summed(rows: pa.Table) -> pa.Table:
    """Rows of `group_traffic` with one row for each key: counts of equal keys are added up."""
    by_key = rows.group_by(list(TABLES["group_traffic"].key))
    sums = by_key.aggregate([(name, "sum") for name in COUNTS])
    names = [name.removesuffix("_sum") for name in sums.column_names]
    schema = arrow_schema("group_traffic")
    return sums.rename_columns(names).select(schema.names).cast(schema)
