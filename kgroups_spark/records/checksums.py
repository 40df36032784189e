"""Checksums of batches in a file that is read forward, at a cost that stays linear, however large claimed lengths are.

Sound batches are summed once, each by itself. In a damaged file, thousands of headers may claim the same megabytes.
Beyond a few times the bytes that the file gave so far, sums therefore come from checkpoints: sums of the file's bytes
up to every 1024th. The sum of bytes a .. b follows from those up to a and up to b, because a CRC is linear (zlib's
crc32_combine):

    sum(a .. b) = sum(0 .. b) xor shifted(sum(0 .. a), b - a)

Here `shifted` appends zero bytes: a 32 x 32 matrix of bits for each power of two of them. The sum then costs at most
2 KiB of summing and 27 table look-ups.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.headers import HEADER_BYTES

STEP = 1 << 10  # bytes between two checkpoints
DIRECT = 4  # times the bytes seen so far that may be summed directly
CRC_FROM = 21  # of a batch of magic 2: its attributes


class Bytes(Protocol):
    """The bytes that are summed: a window (window.py), or a buffer that does not change."""

    position: int
    held: int
    view: memoryview

    @property
    def lead(self) -> int: ...

    def bytes_at(self, place: int, end: int) -> memoryview: ...


class Buffer:
    """Bytes that do not change."""

    position = lead = 0

    def __init__(self, view: memoryview) -> None:
        self.view, self.held = view, len(view)

    def bytes_at(self, place: int, end: int) -> memoryview:
        return self.view[place:end]


Shift = tuple[list[int], list[int], list[int], list[int]]


class Checksums:
    """Sums of byte ranges of the window, by the magic that a batch claims. `summed`: bytes summed so far."""

    def __init__(self, window: Bytes) -> None:
        self._window = window
        self.summed = 0
        self._prefixes = {2: _Prefixes(window, crc32c), 0: _Prefixes(window, zlib.crc32)}

    def of(self, start: int, end: int) -> int:
        """The checksum of the bytes start .. end of the window as a batch; -1, which no batch claims, if the magic is
        unknown or the header is cut."""
        magic = self._window.view[start + 16]
        if magic > 2 or (magic == 2 and end - start < HEADER_BYTES):
            return -1
        first, prefixes = (start + CRC_FROM, self._prefixes[2]) if magic == 2 else (start + 16, self._prefixes[0])
        if end - first <= STEP or self.summed + end - first <= DIRECT * self._seen:
            self.summed += end - first
            return prefixes.direct(first, end)
        before = prefixes.summed
        found = prefixes.between(first, end)
        self.summed += prefixes.summed - before
        return found

    def match(self, edges: NDArray[np.int64], batches: BatchColumns) -> NDArray[np.bool_]:
        """For each batch between the edges, whether it has a known magic, room for its header and the checksum that it
        claims."""
        edge, size = edges.tolist(), int(edges[-1] - edges[0])
        is_usual = (batches.magic == 2).all() and (batches.size >= HEADER_BYTES).all()
        if is_usual and self.summed + size <= DIRECT * self._seen:
            self.summed += size
            view = self._window.view
            found = [crc32c(view[a + CRC_FROM : b]) for a, b in pairwise(edge)]
        else:
            found = [self.of(a, b) for a, b in pairwise(edge)]
        return np.equal(np.array(found, np.int64), batches.crc)

    @property
    def _seen(self) -> int:
        return self._window.position + self._window.held


class _Prefixes:
    """Sums of the file's bytes from the first position that was requested, up to every STEPth byte."""

    def __init__(self, window: Bytes, crc: Callable[..., int]) -> None:
        self._window, self._crc = window, crc
        self._base = 0
        self._sums = [0]
        self.summed = 0

    def direct(self, start: int, end: int) -> int:
        return self._crc(self._window.view[start:end])

    def between(self, start: int, end: int) -> int:
        """The sum of the bytes start .. end of the window."""
        at, to = self._window.position + start, self._window.position + end
        there = self._window.position - self._window.lead
        checkpoints = (self._base + STEP * ((at - self._base) // STEP), self._base + STEP * (len(self._sums) - 1))
        if at < self._base or min(checkpoints) < there:
            self._base, self._sums = at, [0]
        return self._upto(to) ^ shifted(self._upto(at), to - at, self._crc is crc32c)

    def _upto(self, place: int) -> int:
        number = (place - self._base) // STEP
        while len(self._sums) <= number:
            last = self._base + STEP * (len(self._sums) - 1)
            self._sums.append(self._go_on(self._sums[-1], last, last + STEP))
        return self._go_on(self._sums[number], self._base + STEP * number, place)

    def _go_on(self, found: int, at: int, to: int) -> int:
        self.summed += to - at
        return self._crc(self._window.bytes_at(at, to), found)


def shifted(found: int, zeros: int, is_crc32c: bool) -> int:
    """The sum `found` after so many zero bytes: its share in the sum of its bytes and as many bytes after them."""
    power = 0
    while zeros:
        if zeros & 1:
            a, b, c, d = _shift(power, is_crc32c)
            found = a[found & 255] ^ b[found >> 8 & 255] ^ c[found >> 16 & 255] ^ d[found >> 24]
        zeros >>= 1
        power += 1
    return found


@cache
def _shift(power: int, is_crc32c: bool) -> Shift:
    """The matrix of 2 ** power zero bytes, as a table for each byte of a sum."""
    if power:
        half = _shift(power - 1, is_crc32c)
        columns = [_apply(half, _apply(half, 1 << bit)) for bit in range(32)]
    else:
        crc = crc32c if is_crc32c else zlib.crc32
        # The sum continues from `found` over one zero byte; the share of that byte itself is removed again.
        columns = [crc(b"\0", 1 << bit) ^ crc(b"\0", 0) for bit in range(32)]
    numbers = np.arange(256)
    tables = []
    for byte in range(4):
        table = np.zeros(256, np.int64)
        for bit in range(8):
            table ^= np.where(numbers >> bit & 1, columns[8 * byte + bit], 0)
        tables.append(table.tolist())
    return tables[0], tables[1], tables[2], tables[3]


def _apply(shift: Shift, found: int) -> int:
    a, b, c, d = shift
    return a[found & 255] ^ b[found >> 8 & 255] ^ c[found >> 16 & 255] ^ d[found >> 24]
