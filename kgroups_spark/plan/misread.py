"""A last batch that the lake read under an offset beyond its own, because its header was damaged at that time.

No checksum covers a batch's offset. Later the log has the batch at its true offset, with the same checksum; the batches
from that offset on were never read. Another batch may have the same bytes, and so the same checksum: the lake has its
records, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.plan.cut_back import MOST_LOOKED_FOR, CutBack, KnownReadings
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.partition_log import PartitionLog


def misread(log: PartitionLog, before: PartitionProgress, readings: KnownReadings | None) -> CutBack | None:
    """The range to replace if the lake read the last batch under a wrong offset; None: it did not.

    Before such a batch offsets were missing, according to the audit that read it. Idle audits may have followed.
    """
    offset, crc = before.last_batch_offset, before.last_batch_crc
    if offset is None or crc is None:
        return None
    there = log.headers_at(offset)
    if ((there.base_offset == offset) & (there.crc == crc)).any():
        return None
    before = _when_read(before, readings)
    if not _has_room(log, before):
        return None
    for headers in chain([there], islice(_back_from(log, before), log.lots_in_passing)):
        for row in reversed(np.flatnonzero(_may_be(headers, before)).tolist()):
            first, last = int(headers.base_offset[row]), min(int(headers.last_offset[row]), offset - 1)
            if readings is None or not readings.has_records(before.offsets_partition, first, last):
                return CutBack(first, before.end_offset, _read_to(headers, row, before), offset)
    return None


def _when_read(before: PartitionProgress, readings: KnownReadings | None) -> PartitionProgress:
    """The entry of the audit that read the last batch; `before` itself if the last audits have none."""
    if _has_read(before) or readings is None:
        return before
    entries = (entry for _, entry in islice(readings.earlier(before.offsets_partition), MOST_LOOKED_FOR))
    last = next(filter(_has_read, entries), None)
    return before if last is None or last.last_batch_crc != before.last_batch_crc else last


def _has_read(entry: PartitionProgress) -> bool:
    return entry.end_offset > entry.start_offset


def _has_room(log: PartitionLog, before: PartitionProgress) -> bool:
    """Whether offsets were missing before the last batch. An audit without new records does not show that; after one,
    the log has to end before the offset read last."""
    return before.offsets_missing > 0 if _has_read(before) else log.end_offset < before.end_offset


def _back_from(log: PartitionLog, before: PartitionProgress) -> Iterator[BatchColumns]:
    """The headers of the part that the last audit read, as far back as the batch can be, the newest lot first."""
    offset = before.last_batch_offset or 0
    first = max(before.start_offset, offset - before.offsets_missing)
    for headers in log.headers_back_from(offset):
        yield headers
        if len(headers) and int(headers.base_offset[0]) <= first:
            return


def _may_be(headers: BatchColumns, before: PartitionProgress) -> np.typing.NDArray[np.bool_]:
    """For each batch, whether it has the checksum and the span of the last one, and is no further before it than
    offsets were missing.

    The missing offsets rule out a chance match: a batch that was read under its own offset leaves none.
    """
    offset = before.last_batch_offset or 0
    is_same: np.typing.NDArray[np.bool_] = (headers.crc == before.last_batch_crc) & (headers.base_offset < offset)
    is_same &= headers.last_offset - headers.base_offset == before.end_offset - 1 - offset
    if _has_read(before):
        is_same &= headers.base_offset >= before.start_offset
        is_same &= offset - headers.base_offset <= before.offsets_missing
    return is_same


def _read_to(headers: BatchColumns, row: int, before: PartitionProgress) -> PartitionProgress:
    """The progress up to this batch, which ends with the batch before it."""
    end = int(headers.base_offset[row])
    if not row:
        return replace(before, end_offset=end, last_batch_offset=None, last_batch_crc=None, last_leader_epoch=None)
    epoch = int(headers.leader_epoch[row - 1])
    return replace(
        before,
        end_offset=end,
        last_batch_offset=int(headers.base_offset[row - 1]),
        last_batch_crc=int(headers.crc[row - 1]),
        last_leader_epoch=epoch if epoch >= 0 else None,
    )
