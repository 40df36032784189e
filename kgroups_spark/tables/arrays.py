"""Arrow columns as NumPy arrays, which have no nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def numbers(column: pa.Array | pa.ChunkedArray, *, none: int = 0) -> NDArray[np.int64]:
    """A column of integers as int64, with `none` for null."""
    column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, none)
    found: NDArray[np.int64] = column.to_numpy()
    return found


def flags(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A boolean column; null is false."""
    found: NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return found


def is_given(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether a value is not null."""
    found: NDArray[np.bool_] = column.is_valid().to_numpy()
    return found
