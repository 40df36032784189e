"""The output of a reader as plain rows, to compare."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import SegmentReader, read_segment
from tests.slow_records import SlowRecord


def rows_of(records: RecordColumns) -> list[SlowRecord]:
    first, last = records.batches.base_offset.tolist(), records.batches.last_offset.tolist()
    magic = records.batches.magic[records.batch].tolist()
    columns = (
        records.offset,
        records.timestamp,
        records.leader_epoch,
        records.producer_id,
        records.producer_epoch,
        records.is_transactional,
        records.is_control,
        records.timestamp_type,
        records.batch,
    )
    return [
        SlowRecord(offset, ts, records.key(i), records.value(i), magic[i], *header, (first[batch], last[batch]))
        for i, (offset, ts, *header, batch) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    ]


def read_all(data: bytes, **arguments: Any) -> tuple[list[SlowRecord], list[CorruptBatch], SegmentReader]:
    reader = read_segment(io.BytesIO(data), **arguments)
    rows: list[SlowRecord] = []
    corrupt: list[CorruptBatch] = []
    for item in reader:
        if isinstance(item, CorruptBatch):
            corrupt.append(item)
        else:
            rows += rows_of(item)
    return rows, corrupt, reader


# Segments that are damaged.
SEGMENTS = Path(__file__).parents[1] / "data" / "segments"
NAMES = [
    "compacted-4.3/__consumer_offsets-0/00000000000000002857.log",
    "compacted-4.3/__consumer_offsets-1/00000000000000003149.log",
    "legacy-2.8/old-format/__consumer_offsets-1/00000000000000000000.log",
    "legacy-2.8/upgraded/__consumer_offsets-3/00000000000000000000.log",
    "transactions-4.3/__consumer_offsets-2/00000000000000000000.log",
]
LOGS = [(SEGMENTS / name).read_bytes() for name in NAMES]
