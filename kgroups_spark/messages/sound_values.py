"""Which GroupMetadata values can be read, found for many at once, without reading them.

A replay that keeps no history needs of most values only that they are sound: the group's next one replaces them. All
values go field by field in lock-step, the i-th members of all groups together; only positions are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.messages.definition import Field, definition
from kgroups_spark.messages.slices import unaligned

Positions = NDArray[np.int64]
_FIXED = {"int16": 2, "int32": 4, "int64": 8}
_FIXED_LAYOUTS = range(4)  # version 4 is flexible: its lengths are varints
_NOWHERE = -(1 << 62)  # stays negative, whatever is added


def are_sound(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> NDArray[np.bool_]:
    """Whether each GroupMetadataValue data[start : start + length] is of version 0 to 3 and read to its last byte.

    False says nothing: such a value is for the reader of single values. 8 bytes after any start must be readable.
    """
    version = np.where(lengths >= 2, unaligned(data, ">i2")[starts], -1)
    sound = np.zeros(len(starts), np.bool_)
    fields = definition("GroupMetadataValue").fields
    for one in _FIXED_LAYOUTS:
        rows = np.flatnonzero(version == one)
        if rows.size:
            ends = starts[rows] + lengths[rows]
            sound[rows] = _walk(data, fields, one, starts[rows] + 2, ends) == ends
    return sound


def _walk(data: NDArray[np.uint8], fields: Sequence[Field], version: int, at: Positions, ends: Positions) -> Positions:
    """The position behind the fields; negative where they cannot be read."""
    fixed = 0  # bytes of the fields that were passed over since `at`
    for field in fields:
        if version not in field.versions:
            continue
        if not field.is_array and field.element in _FIXED:
            fixed += _FIXED[field.element]
            continue
        width = 4 if field.is_array or field.element == "bytes" else 2
        at, length = _read_length(data, at + fixed, ends, width, version in field.nullable)
        at = _walk_members(data, field, version, at, length, ends) if field.is_array else at + length
        fixed = 0
    return _within(at + fixed, ends)


def _walk_members(
    data: NDArray[np.uint8], field: Field, version: int, at: Positions, count: Positions, ends: Positions
) -> Positions:
    rows, number = np.flatnonzero(count > 0), 0
    at = at.copy()
    while rows.size:
        at[rows] = _walk(data, field.fields, version, at[rows], ends[rows])
        number += 1
        rows = rows[(count[rows] > number) & (at[rows] >= 0)]
    return at


def _read_length(
    data: NDArray[np.uint8], at: Positions, ends: Positions, width: int, is_nullable: bool
) -> tuple[Positions, Positions]:
    """The position behind a length, negative if it is not one, and the length, 0 for null."""
    is_wrong = (at < 0) | (at > ends)
    length = unaligned(data, f">i{width}")[np.where(is_wrong, 0, at)].astype(np.int64)
    at = at + width
    at[is_wrong | (length < (-1 if is_nullable else 0))] = _NOWHERE
    return at, np.maximum(length, 0, out=length)


def _within(at: Positions, ends: Positions) -> Positions:
    return np.where(at > ends, _NOWHERE, at)
