"""Zigzag varints at many places of one buffer at once.

Kafka: ByteUtils.readVarint and readVarlong 4.3.1: seven bits a byte, lowest first, at most 5 and 10 bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

INT_BYTES = 5
LONG_BYTES = 10


def read_varints(
    data: NDArray[np.uint8], pos: NDArray[np.int64], max_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The numbers at `pos`, the positions after them, and the rows whose number does not end within max_bytes.

    Reads up to max_bytes from each position, which the buffer must hold.
    """
    byte = data[pos]
    number = (byte & 0x7F).astype(np.uint64)
    after = pos + 1
    rows = np.flatnonzero(byte & 0x80)
    shift = 7
    while rows.size and shift < 7 * max_bytes:
        byte = data[after[rows]]
        number[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[byte & 0x80 != 0]
        shift += 7
    return unzigzag(number), after, rows


def unzigzag(number: NDArray[np.uint64]) -> NDArray[np.int64]:
    signed = (number >> np.uint64(1)).view(np.int64)
    return signed ^ -(number & np.uint64(1)).view(np.int64)


def read_varint(data: memoryview, pos: int, end: int, max_bytes: int = INT_BYTES) -> tuple[int, int]:
    """The number and the position after it. Raises ValueError if it does not end before `end` or within max_bytes."""
    number = shift = 0
    for at in range(pos, min(end, pos + max_bytes)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
    raise ValueError(f"varint at byte {pos} does not end")
