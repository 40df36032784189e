"""Conversions to and from epoch milliseconds, in which expiry is computed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.tables.columns import TIMESTAMP
from kgroups_spark.times import LAST_MS

Ms = NDArray[np.int64]

NONE = np.iinfo(np.int64).min  # no time: outside the range of TIMESTAMP


def times_in(column: pa.ChunkedArray) -> Ms:
    """The epoch milliseconds of TIMESTAMPs, rounded down; NONE for null."""
    micros = column.cast(TIMESTAMP).cast(pa.int64()).fill_null(NONE).to_numpy()
    return np.where(micros == NONE, NONE, micros // 1000)


def first_known(*times: Ms) -> Ms:
    """For each row the first time that is not NONE."""
    found = times[0]
    for other in times[1:]:
        found = np.where(found == NONE, other, found)
    return found


def later(times: Ms, by_ms: int) -> Ms:
    """The times plus `by_ms`; NONE stays. A sum that would overflow becomes a time far after the year 9999."""
    return np.where(times == NONE, NONE, times + storable(by_ms))


def storable(ms: int) -> int:
    """The number, limited so that a TIMESTAMP's milliseconds can be added without overflow."""
    return min(ms, 1 << 62)


def timestamps(times: Ms) -> pa.Array:
    """The TIMESTAMPs; null for NONE. A time after the year 9999 becomes that year's last millisecond: few readers can
    show later times, and a sum of two times would not fit."""
    is_none = times == NONE
    micros = np.where(is_none, 0, np.minimum(times, LAST_MS) * 1000)
    return pa.array(micros, mask=is_none).cast(TIMESTAMP)


def timestamp(time_ms: int) -> pa.Scalar:
    """The same for one time."""
    return pa.scalar(min(time_ms, LAST_MS) * 1000, pa.int64()).cast(TIMESTAMP)
