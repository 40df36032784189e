"""Arrow arrays of slices of one byte buffer, without a Python loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_INLINE = 12  # a binary view of up to 12 bytes holds them itself


def binary_slices(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.BinaryArray:
    """data[start : start + length] of each row, copied. 12 bytes after any start must be readable.

    The layout is Arrow's variable-size binary view: int32 length, first 4 bytes, int32 buffer, int32 position in it.
    """
    views = np.zeros((len(starts), 4), np.int32)
    views[:, 0] = lengths
    views[:, 1] = unaligned(data, "<i4")[starts]
    views[:, 3] = starts
    short = np.flatnonzero(lengths <= _INLINE)
    if short.size:
        inline = unaligned(data, f"V{_INLINE}")[starts[short]].view(np.uint8).reshape(-1, _INLINE)
        inline[np.arange(_INLINE) >= lengths[short, None]] = 0
        views[short, 1:] = inline.view("<i4")
    array = pa.Array.from_buffers(pa.binary_view(), len(starts), [None, pa.py_buffer(views), pa.py_buffer(data)])
    return array.cast(pa.binary())


def unaligned(data: NDArray[np.uint8], dtype: str) -> NDArray:
    """A view whose element i is the `dtype` that starts at byte i. Indexing it gathers: about 15 ns, up to 26 bytes."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((data.size - width + 1,), dtype=dtype, buffer=data, strides=(1,))
