"""Records for findings, noted while they are read: no table has their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.findings.records import NEAR_LIMIT_BYTES, TIME_OFF_MS
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.messages.offset_commits import OffsetCommitColumns
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.records.columns import RecordColumns

# The fields of LargeRecord and of TimesOff without the offsets partition, which the range has.
Large = tuple[str, str, int, int | None, int]
Off = tuple[str, str, int, int, int, int, int]


class OddRecords:
    """Odd records of a range. `large`: the newest of each group and record type. `times_off`: the first of each group,
    and their number."""

    def __init__(self) -> None:
        self._large: dict[tuple[str, int], Large] = {}
        self._off: dict[str, Off] = {}

    def add_chunk(
        self,
        records: RecordColumns,
        commits: OffsetCommitColumns,
        keys: OffsetKeys,
        decoded: list[tuple[int, CoordinatorRecord]],
    ) -> None:
        """Notes the odd ones among all decoded records of a chunk."""
        for row, record in decoded:
            size = int(records.key_length[row]) + max(0, int(records.value_length[row]))
            if size >= NEAR_LIMIT_BYTES:
                self._add_large(record, int(records.offset[row]), int(records.timestamp[row]), size)
        reported = records.timestamp[commits.rows]
        off = np.flatnonzero(_is_off(commits, reported))
        if len(off):
            self._add_off(commits, keys, reported, records.offset[commits.rows], off)

    def _add_large(self, record: CoordinatorRecord, offset: int, timestamp: int, size: int) -> None:
        name = CONSUMER_OFFSETS[record.record_type].name
        when = None if timestamp < 0 else timestamp
        self._large[record.group_id, record.record_type] = (record.group_id, name, offset, when, size)

    def _add_off(
        self,
        commits: OffsetCommitColumns,
        keys: OffsetKeys,
        reported: NDArray[np.int64],
        offset: NDArray[np.int64],
        off: NDArray[np.int64],
    ) -> None:
        group = keys.group[commits.code[off]].astype(np.int64)
        groups, firsts, counts = np.unique(group, return_index=True, return_counts=True)
        for number, first, count in zip(groups.tolist(), off[firsts].tolist(), counts.tolist(), strict=True):
            group_id = keys.groups[number]
            before = self._off.get(group_id)
            if before is not None:
                self._off[group_id] = (*before[:-1], before[-1] + count)
                continue
            code = int(commits.code[first])
            self._off[group_id] = (
                group_id,
                keys.topic[code].as_py(),
                int(keys.partition[code]),
                int(offset[first]),
                int(commits.commit_timestamp[first]),
                int(reported[first]),
                count,
            )

    @property
    def large(self) -> list[Large]:
        return sorted(self._large.values())

    @property
    def times_off(self) -> list[Off]:
        return sorted(self._off.values())


def _is_off(commits: OffsetCommitColumns, reported: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Values whose commit time differs from their record's time by more than TIME_OFF_MS; false without either time."""
    # Clipped against overflow: a broker accepts any commit time from a client.
    committed, reported = np.clip(commits.commit_timestamp, -1, 1 << 60), np.clip(reported, -1, 1 << 60)
    known = ~commits.is_tombstone & (committed >= 0) & (reported >= 0)
    off: NDArray[np.bool_] = known & (np.abs(committed - reported) > TIME_OFF_MS)
    return off
