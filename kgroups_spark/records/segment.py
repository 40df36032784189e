"""A log segment read from front to back: its records, and the bytes that cannot be read.

The scan returns sound batches (`scan.py`). Their records must fill them exactly: a batch whose records do not is
returned as CorruptBatch, never in part. Reading always ends, and never raises because of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kgroups_spark.records.batches import (
    BadBatches,
    decode_batches,
    open_bodies,
    require_believable_counts,
    require_order,
)
from kgroups_spark.records.bounds import Bounds
from kgroups_spark.records.columns import BatchColumns, CorruptBatch, RecordColumns
from kgroups_spark.records.legacy import decode_legacy
from kgroups_spark.records.scan import RAW_BYTES, Run, SegmentScan
from kgroups_spark.records.window import BinaryFile

CHUNK_BYTES = 8 << 20
# The most records returned together, however many a batch holds: one that cannot be decoded may cost a kilobyte.
RECORDS_AT_ONCE = 1 << 17
# The same for the bytes of large values: decoded, one of a MB may cost 140 MB.
LARGE_VALUE = 1 << 16
LARGE_BYTES_AT_ONCE = 2 << 20
ANYWHERE = Bounds()


def read_segment(
    file: BinaryFile,
    *,
    position: int = 0,
    end: int | None = None,
    from_offset: int = 0,
    end_offset: int | None = None,
    bounds: Bounds = ANYWHERE,
    chunk_bytes: int = CHUNK_BYTES,
) -> SegmentReader:
    """The records of a segment from byte `position` (a batch border) to byte `end`, in chunks, and its corrupt
    batches, in log order.

    Records below from_offset are left out, as are corrupt batches wholly below it. Reading ends before the first sound
    batch that is not wholly below end_offset. `bounds`: where its batches can be. The data of each RecordColumns
    is valid until the next is requested. A half-written or zero-filled tail ends the reading: see `stopped`.
    """
    scan = SegmentScan(file, position, end, bounds, chunk_bytes)
    return SegmentReader(scan, from_offset, end_offset, bounds.floor - 1)


def scan_batches(
    file: BinaryFile,
    *,
    position: int = 0,
    end: int | None = None,
    bounds: Bounds = ANYWHERE,
    chunk_bytes: int = CHUNK_BYTES,
) -> BatchColumns:
    """Headers of all sound batches, without their records. Compressed messages of magic 0 and 1 are not decompressed:
    their base offset and count are those of their last message."""
    return scan_headers(file, position=position, end=end, bounds=bounds, chunk_bytes=chunk_bytes)[0]


def scan_headers(
    file: BinaryFile,
    *,
    position: int = 0,
    end: int | None = None,
    bounds: Bounds = ANYWHERE,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[BatchColumns, BatchColumns]:
    """The same, and the headers of batches that are held back at the log's end."""
    scan = SegmentScan(file, position, end, bounds, chunk_bytes)
    found = [run.batches for run in scan.runs() if isinstance(run, Run)]
    return BatchColumns.concat(found), scan.held_back


class SegmentReader(Iterator[RecordColumns | CorruptBatch]):
    """Reads once, forward. After the last item, `position` is where reading stopped, and `stopped` the reason."""

    def __init__(self, scan: SegmentScan, from_offset: int, end_offset: int | None, decoded_to: int) -> None:
        """`decoded_to`: every record's offset is above it."""
        self._scan = scan
        self._from_offset = from_offset
        self._end_offset = end_offset
        self._decoded_to = decoded_to
        self._past_end_at: int | None = None  # the position of the first batch that ends at or after end_offset
        self._items = self._read()

    @property
    def position(self) -> int:
        """The position in the file of the first byte that is not finished."""
        return self._scan.position if self._past_end_at is None else self._past_end_at

    @property
    def stopped(self) -> str | None:
        """`end`, `partial batch`, `zeros`, `end offset` or `unconfirmed`; None while reading."""
        return "end offset" if self._past_end_at is not None else self._scan.stopped

    @property
    def why_unconfirmed(self) -> str | None:
        """The reason why the last batch is held back; None: it is not."""
        return self._scan.why_unconfirmed

    def __next__(self) -> RecordColumns | CorruptBatch:
        return next(self._items)

    def _read(self) -> Iterator[RecordColumns | CorruptBatch]:
        for run in self._scan.runs():
            if isinstance(run, Run):
                start = int(np.searchsorted(run.batches.last_offset, self._from_offset))
                yield from self._decode(run[start : self._below_end(run)])
                if self._past_end_at is not None:
                    return
            elif self._end_offset is not None and run.base_offset is not None and run.base_offset >= self._end_offset:
                continue
            elif run.last_offset is None or run.last_offset >= self._from_offset:
                yield run

    def _below_end(self, run: Run) -> int:
        """The number of batches that end below end_offset; reading stops at the first one that does not."""
        if self._end_offset is None:
            return len(run)
        count = int(np.searchsorted(run.batches.last_offset, self._end_offset))
        if count < len(run):
            self._past_end_at = int(run.batches.position[count])
        return count

    def _decode(self, run: Run) -> Iterator[RecordColumns | CorruptBatch]:
        """The records of sound batches of any magic."""
        changes = np.flatnonzero(np.diff(run.batches.magic < 2)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(run)] if len(run) else []):
            yield from self._decode_alike(run[start:stop])

    def _decode_alike(self, run: Run) -> Iterator[RecordColumns | CorruptBatch]:
        """The records of batches that are all of magic 2, or all of the old formats."""
        while len(run):
            try:
                records, count = self._decode_some(run)
            except BadBatches as err:
                yield from self._decode_around(run, err.details)
                return
            if records.batches.base_offset[0] < self._from_offset:
                records = records.take(records.offset >= self._from_offset)
            for start, stop in pairwise(_pieces(records)):
                yield records if stop - start == len(records) else records.take(slice(start, stop))
            run = run[count:]

    def _decode_some(self, run: Run) -> tuple[RecordColumns, int]:
        """The records of the first batches of a run, and the number of those batches."""
        require_believable_counts(run.batches)
        if run.batches.magic[0] < 2:
            records, count = decode_legacy(run.data, run.edges, run.batches)
        else:
            bodies = open_bodies(run.data, run.edges, run.batches)
            some = run[: len(bodies)]
            records, count = decode_batches(bodies, some.batches, some.base_timestamp), len(some)
        require_order(records.batches, self._decoded_to)
        self._decoded_to = int(records.batches.last_offset[-1])
        return records, count

    def _decode_around(self, run: Run, details: dict[int, str]) -> Iterator[RecordColumns | CorruptBatch]:
        start = 0
        for bad in sorted(details):
            yield from self._decode_alike(run[start:bad])
            batches = run.batches
            yield CorruptBatch(
                position=int(batches.position[bad]),
                size=int(batches.size[bad]),
                base_offset=int(batches.base_offset[bad]),
                last_offset=int(batches.last_offset[bad]),
                record_count=believable_count(batches, bad),
                detail=details[bad],
                raw=run.data[run.edges[bad] : run.edges[bad + 1]][:RAW_BYTES].tobytes(),
            )
            start = bad + 1
        yield from self._decode_alike(run[start:])


def _pieces(records: RecordColumns) -> list[int]:
    """Where the pieces begin that are returned one by one, and where the last one ends."""
    length = records.value_length
    large = np.cumsum(np.where(length > LARGE_VALUE, length, 0), dtype=np.int64)
    piece = np.arange(len(records)) // RECORDS_AT_ONCE + large // LARGE_BYTES_AT_ONCE
    return [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(records)]


def believable_count(batches: BatchColumns, i: int) -> int:
    """The number of records that a sound header claims, if its offsets have room for them; else 1."""
    count = int(batches.record_count[i])
    return count if 0 <= count <= batches.last_offset[i] - batches.base_offset[i] + 1 else 1
