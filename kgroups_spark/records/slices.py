"""Slices of a buffer as an Arrow array, without a loop in Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.records.headers import gather

INLINE = 12  # bytes; a view of so many or fewer holds them itself


def binary_array(data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> pa.BinaryArray:
    """data[start : start + length] of each row, copied; null if length is below 0. At most 2 GiB in all.

    `data` needs 32 readable bytes after every start. The array is built from Arrow's binary views: length i32, then the
    bytes if they are at most 12, else the first four, number of the buffer and start i32.
    """
    is_null = length < 0
    view = np.zeros((len(start), 4), np.int32)
    view[:, 0] = np.maximum(length, 0)
    inside = gather(data, start, np.dtype((np.void, INLINE))).view(np.uint8).reshape(-1, INLINE)
    is_short = length <= INLINE
    view[:, 1] = np.where(is_short, 0, inside[:, :4].copy().view(np.int32).ravel())
    view[:, 3] = np.where(is_short, 0, start)
    short = np.flatnonzero(is_short)
    kept = np.where(np.arange(INLINE) < length[short, None], inside[short], 0).astype(np.uint8)
    view[short, 1:] = kept.view(np.int32)
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    views = pa.Array.from_buffers(pa.binary_view(), len(start), [validity, pa.py_buffer(view), pa.py_buffer(data)])
    return views.cast(pa.binary())
