"""Records of uncompressed magic-2 batches, all batches at once.

    record:  length varint | attributes i8 | timestampDelta varlong | offsetDelta varint
             | keyLength varint (-1 null) | key | valueLength varint (-1 null) | value
             | headerCount varint | headers { keyLength varint | key | valueLength varint (-1 null) | value }

Kafka: DefaultRecord.java 4.3.1. All varints are zigzag. `length` counts the bytes after itself, at least 6.
A record can only be found from the one before it. The batches therefore go in lock-step: the first record of every
batch, then the second of every batch that has one, and so on. Each step is a few NumPy operations over all batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.varint import INT_BYTES, LONG_BYTES, read_varint, read_varints

SMALLEST_RECORD = 7  # bytes, length included
FEW_BATCHES = 12  # below this a plain loop over the rest of a batch is faster than lock-step


@dataclass(frozen=True, eq=False)
class Framed:
    """n records. `is_bad` has one element for each batch; records of a bad batch are meaningless."""

    batch: NDArray[np.int32]
    offset_delta: NDArray[np.int64]
    timestamp_delta: NDArray[np.int64]
    key_start: NDArray[np.int64]
    key_length: NDArray[np.int64]
    value_start: NDArray[np.int64]
    value_length: NDArray[np.int64]
    is_bad: NDArray[np.bool_]


def frame_records(
    data: NDArray[np.uint8], first: NDArray[np.int64], end: NDArray[np.int64], counts: NDArray[np.int64]
) -> Framed:
    """The records between first[i] and end[i], counts[i] of them, for every batch i.

    `data` needs 32 readable bytes after the last end. A batch is bad unless exactly `counts` records fill it exactly.
    The caller must check that every count is believable (0 <= 7 * count <= bytes), because that bounds the memory.
    """
    start, stop, is_bad = find_records(data, first, end, counts)
    batch = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    timestamp_delta, pos, endless_a = read_varints(data, start + 1, LONG_BYTES)
    offset_delta, pos, endless_b = read_varints(data, pos, INT_BYTES)
    key_length, key_start, endless_c = read_varints(data, pos, INT_BYTES)
    pos = np.minimum(key_start + np.maximum(key_length, 0), stop)
    value_length, value_start, endless_d = read_varints(data, pos, INT_BYTES)
    pos = np.minimum(value_start + np.maximum(value_length, 0), stop)
    # Without headers, as in all records of a coordinator, one zero byte is left. The others are read one by one.
    unusual = [np.flatnonzero((pos + 1 != stop) | (data[pos] != 0)), endless_a, endless_b, endless_c, endless_d]
    view = data.data
    for row in np.unique(np.concatenate(unusual)).tolist():
        if not is_whole_record(view, int(start[row]), int(stop[row])):
            is_bad[batch[row]] = True
    return Framed(
        batch,
        offset_delta,
        timestamp_delta,
        key_start,
        np.maximum(key_length, -1, out=key_length),
        value_start,
        np.maximum(value_length, -1, out=value_length),
        is_bad,
    )


def find_records(
    data: NDArray[np.uint8], first: NDArray[np.int64], end: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Where each record starts (after its length) and stops, in log order, and which batches are not filled
    exactly."""
    total = int(counts.sum())
    start, stop = np.empty(total, np.int64), np.empty(total, np.int64)
    by_count = np.argsort(-counts, kind="stable")
    count = counts[by_count]
    pos, limit = first[by_count].copy(), end[by_count]
    slot = (np.cumsum(counts) - counts)[by_count]
    longest = int(count[0]) if len(count) else 0
    running = np.searchsorted(-count, -np.arange(longest), side="left")  # batches that have an i-th record
    is_bad = np.zeros(len(counts), np.bool_)
    step = 0
    while step < longest and running[step] >= FEW_BATCHES:
        k = int(running[step])
        length, body, endless = read_varints(data, pos[:k], INT_BYTES)
        after = body + length
        wrong = (after > limit[:k]) | (length < 0)
        wrong[endless] = True
        if wrong.any():  # such a batch stays at its end, where every next read is wrong, too
            is_bad[by_count[:k][wrong]] = True
            body, after = np.where(wrong, limit[:k], body), np.where(wrong, limit[:k], after)
        at = slot[:k] + step
        start[at], stop[at] = body, after
        pos[:k] = after
        step += 1
    view = data.data
    for lane in range(int(running[step]) if step < longest else 0):
        rows = slice(int(slot[lane]) + step, int(slot[lane]) + int(count[lane]))
        pos[lane], is_whole = _find_rest(view, int(pos[lane]), int(limit[lane]), start[rows], stop[rows])
        is_bad[by_count[lane]] |= not is_whole
    is_bad[by_count[pos != limit]] = True
    return start, stop, is_bad


def _find_rest(
    data: memoryview, pos: int, limit: int, start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[int, bool]:
    """Fills start and stop of one batch's remaining records. Returns the position after them and whether all were
    there."""
    starts, stops = [], []
    try:
        for _ in range(len(start)):
            byte = data[pos]
            if byte < 0x80 and not byte & 1:
                body, length = pos + 1, byte >> 1
            else:
                length, body = read_varint(data, pos, limit)
            pos = body + length
            if length < 0 or pos > limit:
                raise ValueError(f"a record of {length} bytes at byte {body}, {limit - body} are left")
            starts.append(body)
            stops.append(pos)
    except ValueError:
        start[:] = stop[:] = limit
        return limit, False
    start[:], stop[:] = starts, stops
    return pos, True


def is_whole_record(data: memoryview, start: int, stop: int) -> bool:
    """Whether the bytes after a record's length are exactly one record with its headers."""
    try:
        pos = read_varint(data, start + 1, stop, LONG_BYTES)[1]
        pos = read_varint(data, pos, stop)[1]
        pos = skip_bytes(data, pos, stop)
        pos = skip_bytes(data, pos, stop)
        headers, pos = read_varint(data, pos, stop)
        if not 0 <= headers <= stop - pos:
            return False
        for _ in range(headers):
            pos = skip_bytes(data, pos, stop, may_be_null=False)
            pos = skip_bytes(data, pos, stop)
    except ValueError:
        return False
    return pos == stop


def skip_bytes(data: memoryview, pos: int, stop: int, *, may_be_null: bool = True) -> int:
    length, pos = read_varint(data, pos, stop)
    if pos + length > stop or (length < 0 and not may_be_null):
        raise ValueError(f"{length} bytes at byte {pos}, {stop - pos} are left")
    return pos + max(length, 0)
