"""Many values of one layout read together: the i-th elements of all arrays are found in lock-step, then read as
columns.

Building Python objects for hundreds of members costs more than everything else about a log. Here each row has a
position, and all of them move over one field at a time.

Only plain rows are read: text of printable ASCII without quotes and backslashes, which JSON does not escape, lengths
that are possible, -1 for null. Equal plain bytes give equal results, and different ones give different results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.definition import Field
from kgroups_spark.records.slices import binary_slices, unaligned

Positions = NDArray[np.int64]
# Bytes of fixed width, then a length (its unpacker and its width), then that many items of a width.
Step = tuple[int, Callable[..., tuple[int]], int, int]
WIDTH = {"int16": 2, "int32": 4, "int64": 8}
SPARE = 32  # bytes readable after any position
_LENGTHS = {2: struct.Struct(">h").unpack_from, 4: struct.Struct(">i").unpack_from}
_FEW = 8  # up to so many rows are faster one by one


class LockStep:
    """Rows of one layout: the position and the end of each, and whether it is plain so far.

    Values read from a row that is not plain are meaningless; its position stays within the buffer.
    """

    def __init__(self, data: NDArray[np.uint8], position: Positions, end: Positions) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.is_plain = np.ones(len(position), np.bool_)

    def integer(self, kind: str) -> NDArray:
        width = WIDTH[kind]
        value = unaligned(self.data, f">i{width}")[self.position]
        self.advance(width)
        return value.astype(np.int64)

    def length(self, kind: str, is_nullable: bool) -> Positions:
        """The lengths at the position. An impossible one becomes 0, and its row is not plain. -1 (null) only if
        nullable."""
        length = self.integer(kind)
        is_wrong = (length > self.end - self.position) | (length < (-1 if is_nullable else 0))
        self.is_plain &= ~is_wrong
        return np.where(is_wrong, 0, length)

    def advance(self, width: int | Positions) -> None:
        self.position = self.position + width
        is_beyond = self.position > self.end
        if is_beyond.any():
            self.is_plain &= ~is_beyond
            self.position = np.minimum(self.position, self.data.size - SPARE)

    def text(self, length: Positions) -> pa.Array:
        """The texts of these lengths at the position, without quotes. Moves the position after them."""
        raw = binary_slices(self.data, self.position, length)
        self.advance(length)
        offsets = np.frombuffer(raw.buffers()[1], np.int32)[: len(raw) + 1] if len(raw) else np.zeros(1, np.int32)
        is_odd = _odd_bytes(np.frombuffer(raw.buffers()[2] or b"", np.uint8)[: offsets[-1]])
        if is_odd.any():
            odd_rows = np.searchsorted(offsets, np.flatnonzero(is_odd), side="right") - 1
            self.is_plain[odd_rows] = False
            raw = pc.if_else(pa.array(self.is_plain), raw, b"")
        return raw.cast(pa.string())

    def walk(self, field: Field, version: int, count: Positions) -> tuple[Positions, Positions]:
        """The position of each element, and its row. Moves the position after the last element."""
        first = np.cumsum(count) - count
        limit = self.data.size - SPARE
        at = np.full(int(count.sum()), limit, np.int64)
        steps, active, i = _steps(field, version), np.flatnonzero(count > 0), 0
        position = self.position.copy()
        while active.size > _FEW:
            here = position[active]
            at[first[active] + i] = here
            position[active] = np.minimum(_skip(self.data, steps, here, limit), limit)
            i += 1
            active = active[(count[active] > i) & (position[active] < self.end[active])]
        for row in active.tolist():
            elements = range(int(first[row]) + i, int(first[row] + count[row]))
            position[row] = self._walk_one(steps, elements, at, int(position[row]), int(self.end[row]))
        self.position = position
        self.advance(0)
        return at, np.repeat(np.arange(len(count)), count)

    def _walk_one(self, steps: list[Step], elements: range, at: Positions, position: int, end: int) -> int:
        """The same for one row's `elements`, which begin at `position`."""
        data, limit, found = self.data.data, self.data.size - SPARE, []
        for _ in elements:
            if position >= end:
                break
            found.append(position)
            for skipped, unpack, width, scale in steps:
                position = min(position + skipped, limit)
                (length,) = unpack(data, position)
                position += width + max(length, 0) * scale
            position = min(position, limit)
        at[elements.start : elements.start + len(found)] = found
        return position


def _skip(data: NDArray[np.uint8], steps: list[Step], position: Positions, limit: int) -> Positions:
    """The positions after one element each. An impossible length counts as 0: the reading will find it."""
    for skipped, _, width, scale in steps:
        position = np.minimum(position + skipped, limit)
        length = unaligned(data, f">i{width}")[position].astype(np.int64)
        position = position + width + np.maximum(length, 0) * scale
    return position


def _steps(field: Field, version: int) -> list[Step]:
    """The steps over one element."""
    steps, fixed = [], 0
    for part in field.fields or (field,):
        if part.fields and part is not field:
            raise ValueError(f"{part.name}: structs in structs do not occur in these messages")
        if version not in part.versions:
            continue
        is_array = part.is_array and part is not field
        if part.element in WIDTH and not is_array:
            fixed += WIDTH[part.element]
            continue
        width = 2 if part.element == "string" else 4
        steps.append((fixed, _LENGTHS[width], width, WIDTH[part.element] if is_array else 1))
        fixed = 0
    if fixed:
        raise ValueError(f"{field.name}: ends with a field of fixed width, which does not occur in these messages")
    return steps


def consecutive(start: Positions, count: Positions, width: int) -> tuple[Positions, Positions]:
    """Positions of `count` items of one width from each start, and the row of each."""
    row = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(row)) - (np.cumsum(count) - count)[row]
    return start[row] + width * number, row


def _odd_bytes(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each byte, whether JSON would escape it or it is not ASCII."""
    odd: NDArray[np.bool_] = (data - np.uint8(0x20) > 0x5E) | (data == 0x22) | (data == 0x5C)
    return odd
