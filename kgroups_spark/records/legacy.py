"""Messages of the old formats, magic 0 (0.8) and magic 1 (0.10), as columns.

    message:  offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64: magic 1]
              | keyLength i32 (-1 null) | key | valueLength i32 (-1 null) | value

A compressed message holds messages in its value and has the offset of the last one. Their offsets are absolute in
magic 0. In magic 1 they count from 0, unless the cleaner removed some, and the last one has the wrapper's offset. A
wrapper with log append time gives its timestamp to all its messages. Kafka:
AbstractLegacyRecordBatch.DeepRecordsIterator 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.batches import (
    LEGACY_HEADER,
    MOST_RECORDS,
    OPENED_BYTES,
    PADDING,
    BadBatches,
    check_offsets,
    gather,
    too_many,
    walk,
)
from kgroups_spark.records.codecs import Undecompressable, decompress
from kgroups_spark.records.columns import CODEC_MASK, LOG_APPEND_TIME, BatchColumns, RecordColumns, unaligned

KEY_AT = (18, 26)  # position of the key's length, by magic


@dataclass(frozen=True, eq=False)
class Messages:
    """Uncompressed messages: start[i] .. stop[i] of `data`; batch[i] is the outer message that contained them."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    batch: NDArray[np.int32]


def decode_legacy(
    data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns
) -> tuple[RecordColumns, int]:
    """The records of outer messages at edges[i] .. edges[i + 1], and the number of those messages: compressed ones stop
    after OPENED_BYTES.

    Raises BadBatches if any is unsound.
    """
    messages = open_messages(data, edges, batches)
    count = int(messages.batch[-1]) + 1
    return decode_messages(messages, batches[:count]), count


def open_messages(data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns) -> Messages:
    """The messages, decompressed: in place if none is compressed, else all in a new buffer."""
    is_compressed = batches.attributes & CODEC_MASK != 0
    if not is_compressed.any():
        return Messages(data, edges[:-1], edges[1:], np.arange(len(batches), dtype=np.int32))
    view = data.data
    parts: list[bytes | memoryview] = []
    part_edges: list[NDArray[np.int64]] = []
    details: dict[int, str] = {}
    total = 0
    for i, (start, stop) in enumerate(pairwise(edges.tolist())):
        part: bytes | memoryview = view[start:stop]
        inner = np.array([0, stop - start], np.int64)
        if is_compressed[i]:
            try:
                part = decompress(int(batches.attributes[i]) & CODEC_MASK, wrapped(view, start, stop), view[start + 16])
                inner = inner_edges(part)
            except (Undecompressable, ValueError) as err:
                details[i], part = str(err), b""
        parts.append(part)
        part_edges.append(inner + total)
        total += len(part)
        if total >= OPENED_BYTES:
            break
    if details:
        raise BadBatches(details)
    parts.append(bytes(PADDING))
    counts = [len(part) - 1 for part in part_edges]
    return Messages(
        np.frombuffer(b"".join(parts), np.uint8),
        np.concatenate([part[:-1] for part in part_edges]),
        np.concatenate([part[1:] for part in part_edges]),
        np.repeat(np.arange(len(counts), dtype=np.int32), counts),
    )


def wrapped(view: memoryview, start: int, stop: int) -> memoryview:
    """The value of a compressed message. Raises ValueError if it has none."""
    pos = start + KEY_AT[view[start + 16]]
    for _ in ("key", "value"):
        length = int.from_bytes(view[pos : pos + 4], "big", signed=True)
        value_at = pos + 4
        pos = value_at + max(length, 0)
        if pos > stop:
            raise ValueError(f"a key or value of {length} bytes, {stop - value_at} are left")
    if length < 0 or pos != stop:
        raise ValueError(f"a compressed message with a value of {length} bytes, {stop - value_at} are left")
    return view[value_at:stop]


def inner_edges(body: bytes | memoryview) -> NDArray[np.int64]:
    """Where the messages in a compressed one begin, and the end. Raises ValueError unless they fill it."""
    edges, _ = walk(memoryview(body), len(body))
    if len(edges) > MOST_RECORDS:
        raise ValueError(too_many(len(edges) - 1))
    if len(edges) < 2 or edges[-1] != len(body):
        raise ValueError(f"a compressed message holds {len(edges) - 1} messages in {edges[-1]} of {len(body)} bytes")
    return edges


def decode_messages(messages: Messages, batches: BatchColumns) -> RecordColumns:
    """The records. Raises BadBatches if a message is unsound, compressed twice, or out of order."""
    data, start, stop, batch = messages.data, messages.start, messages.stop, messages.batch
    header = gather(data, start, LEGACY_HEADER)
    magic = header["magic"]
    length_at = unaligned(data, ">i4")
    key_at = start + np.where(magic == 1, KEY_AT[1], KEY_AT[0])
    key_length = length_at[key_at].astype(np.int64)
    value_at = np.minimum(key_at + 4 + np.maximum(key_length, 0), stop)
    value_length = length_at[value_at].astype(np.int64)
    is_bad = value_at + 4 + np.maximum(value_length, 0) != stop
    is_bad |= magic >> 1 != 0
    is_bad |= header["attributes"] & CODEC_MASK != 0
    if is_bad.any():
        raise BadBatches(
            {
                int(batch[row]): f"{stop[row] - start[row]} bytes are not one uncompressed message of magic 0 or 1"
                for row in np.flatnonzero(is_bad).tolist()
            }
        )
    offset = header["offset"].astype(np.int64)
    batches, offset = with_inner_offsets(batches, batch, offset)
    check_offsets(offset, batch, batches)
    timestamp = np.where(magic == 1, header["timestamp"], -1)
    by_wrapper = (magic == 1) & (batches.attributes & LOG_APPEND_TIME != 0)[batch] & (batches.magic == 1)[batch]
    return RecordColumns(
        data,
        batches,
        batch,
        offset,
        np.where(by_wrapper, batches.max_timestamp[batch], timestamp).astype(np.int64),
        key_at + 4,
        np.maximum(key_length, -1),
        value_at + 4,
        np.maximum(value_length, -1),
    )


def with_inner_offsets(
    batches: BatchColumns, batch: NDArray[np.int32], offset: NDArray[np.int64]
) -> tuple[BatchColumns, NDArray[np.int64]]:
    """Batches with their first offset and number of messages, and the absolute offsets of the messages."""
    counts = np.bincount(batch, minlength=len(batches))
    last = np.cumsum(counts) - 1
    is_relative = (batches.magic == 1) & (batches.attributes & CODEC_MASK != 0)
    # Some releases of librdkafka sent 0 as the wrapper's offset: then the messages' own offsets count.
    base = np.where(is_relative & (batches.last_offset != 0), batches.last_offset - offset[last], 0)
    offset = offset + base[batch]
    opened = replace(
        batches,
        base_offset=offset[last - counts + 1],
        last_offset=np.where(is_relative, offset[last], batches.last_offset),
        record_count=counts.astype(np.int32),
    )
    return opened, offset
