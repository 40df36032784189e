"""Records of magic-2 batches as columns: sizes checked, compressed batches decompressed, records framed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.codecs import Undecompressable, decompress
from kgroups_spark.records.columns import CODEC_MASK, LOG_APPEND_TIME, BatchColumns, RecordColumns
from kgroups_spark.records.framing import SMALLEST_RECORD, frame_records
from kgroups_spark.records.headers import HEADER_BYTES, PADDING

# Bytes of records decompressed together. A chunk of compressed batches that becomes larger is returned in pieces.
OPENED_BYTES = 32 << 20


# No coordinator writes more records in one batch: ten times the default of message.max.bytes (1,048,588), at 21 bytes a
# record. The smallest record is that of an offset: 7 bytes around it, a key with the type, two names of one letter and
# a partition, and no value. Kafka limits a batch before compression (CoordinatorRuntime.java 4.3.1, maxBatchSize).
MOST_RECORDS = 10 * 1_048_588 // 21


class BadBatches(Exception):
    """Some batches hold no sound records. `details`: (index into the batches, reason)."""

    def __init__(self, details: dict[int, str]) -> None:
        super().__init__(f"{len(details)} batches cannot be read")
        self.details = details


def _refuse(batches: NDArray[np.integer], why: Callable[[int], str]) -> None:
    """Raises BadBatches for these batches, if there are any."""
    if batches.size:
        raise BadBatches({i: why(i) for i in batches.tolist()})


@dataclass(frozen=True, eq=False)
class Bodies:
    """Uncompressed records of m batches: those of batch i are first[i] .. end[i] of `data`, which is padded."""

    data: NDArray[np.uint8]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def require_believable_counts(batches: BatchColumns) -> None:
    """Raises BadBatches for batches that claim more than MOST_RECORDS records, before any is decompressed."""
    _refuse(np.flatnonzero(batches.record_count > MOST_RECORDS), lambda i: too_many(int(batches.record_count[i])))


def too_many(count: int) -> str:
    """The reason why a batch of so many records is not read."""
    return f"the header claims {count} records, more than the {MOST_RECORDS} that a coordinator ever writes at once"


def require_order(batches: BatchColumns, above: int) -> None:
    """Raises BadBatches for batches that begin at or below an offset that was read before. `above`: the last offset
    before the first batch.

    The headers are in order already. But the first offset of a compressed message of magic 0 or 1 is known only after
    decompression.
    """
    before = np.maximum.accumulate(np.concatenate([[above], batches.last_offset[:-1]]))
    _refuse(
        np.flatnonzero(batches.base_offset <= before),
        lambda i: f"its records begin at offset {batches.base_offset[i]}, the ones before it end at {before[i]}",
    )


def open_bodies(data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns) -> Bodies:
    """The records of the batches at edges[i] .. edges[i + 1]: in place if none is compressed, else in a new buffer.

    The new buffer ends after OPENED_BYTES, so it may hold fewer batches, but at least one. Raises BadBatches.
    """
    bodies = Bodies(data, edges[:-1] + HEADER_BYTES, edges[1:])
    return _decompressed(bodies, batches) if (batches.attributes & CODEC_MASK).any() else bodies


def _decompressed(bodies: Bodies, batches: BatchColumns) -> Bodies:
    view = bodies.data.data
    parts: list[bytes | memoryview] = []
    total = 0
    details: dict[int, str] = {}
    codecs = (batches.attributes & CODEC_MASK).tolist()
    for i, (codec, first, end) in enumerate(zip(codecs, bodies.first.tolist(), bodies.end.tolist(), strict=True)):
        part: bytes | memoryview = view[first:end]
        if codec and first < end:
            try:
                part = decompress(codec, part)
            except Undecompressable as err:
                details[i] = str(err)
        parts.append(part)
        total += len(part)
        if total >= OPENED_BYTES:
            break
    if details:
        raise BadBatches(details)
    sizes = np.array([len(part) for part in parts], np.int64)
    end_at = np.cumsum(sizes)
    parts.append(bytes(PADDING))
    return Bodies(np.frombuffer(b"".join(parts), np.uint8), end_at - sizes, end_at)


def decode_batches(bodies: Bodies, batches: BatchColumns, base_timestamp: NDArray[np.int64]) -> RecordColumns:
    """The records of batches of magic 2. Raises BadBatches if any batch is unsound."""
    data, first, end = bodies.data, bodies.first, bodies.end
    counts = batches.record_count.astype(np.int64)
    _refuse(
        np.flatnonzero((counts < 0) | (counts * SMALLEST_RECORD > end - first)),
        lambda i: f"the header claims {counts[i]} records, more than {end[i] - first[i]} bytes can hold",
    )
    framed = frame_records(data, first, end, counts)
    offset = np.repeat(batches.base_offset, counts) + framed.offset_delta
    _refuse(
        np.flatnonzero(framed.is_bad),
        lambda i: f"{end[i] - first[i]} bytes are not exactly the {counts[i]} records that the header claims",
    )
    offset = in_order_of_records(offset, framed.batch, batches)
    is_append_time = batches.attributes & LOG_APPEND_TIME != 0
    timestamp = np.repeat(np.where(is_append_time, batches.max_timestamp, base_timestamp), counts)
    if is_append_time.any():
        timestamp += np.where(is_append_time[framed.batch], 0, framed.timestamp_delta)
    else:
        timestamp += framed.timestamp_delta
    return RecordColumns(
        data,
        batches,
        framed.batch,
        offset,
        timestamp,
        framed.key_start,
        framed.key_length,
        framed.value_start,
        framed.value_length,
    )


def in_order_of_records(
    offset: NDArray[np.int64], batch: NDArray[np.int32], batches: BatchColumns
) -> NDArray[np.int64]:
    """The offsets; in batches with odd ones (KAFKA-8722) the records are numbered from the batch's first offset on.

    Kafka's loader looks at no order: it applies the records as they follow each other. Raises BadBatches for batches
    with odd offsets that have no room for their records.
    """
    odd = _with_odd_offsets(offset, batch, batches)
    if not odd.size:
        return offset
    rooms = batches.last_offset - batches.base_offset + 1
    _refuse(odd[batches.record_count[odd] > rooms[odd]], lambda i: _odd_offsets(batches, i))
    rows = np.flatnonzero(np.isin(batch, odd))
    offset[rows] = batches.base_offset[batch[rows]] + rows - np.searchsorted(batch, batch[rows])
    return offset


def check_offsets(offset: NDArray[np.int64], batch: NDArray[np.int32], batches: BatchColumns) -> None:
    """Raises BadBatches for batches with odd offsets."""
    _refuse(_with_odd_offsets(offset, batch, batches), lambda i: _odd_offsets(batches, i))


def _with_odd_offsets(offset: NDArray[np.int64], batch: NDArray[np.int32], batches: BatchColumns) -> NDArray[np.int32]:
    """The batches whose records' offsets do not increase within the claimed range. The batches must be in order."""
    is_odd = offset < batches.base_offset[batch]
    is_odd |= offset > batches.last_offset[batch]
    is_odd[1:] |= (offset[1:] <= offset[:-1]) & (batch[1:] == batch[:-1])
    return np.unique(batch[is_odd])


def _odd_offsets(batches: BatchColumns, i: int) -> str:
    return f"offsets of records leave or repeat within {batches.base_offset[i]} to {batches.last_offset[i]}"
