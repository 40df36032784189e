"""A part of a file in one reused buffer that moves forward."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.headers import PADDING

# The least that is shown. A reader that advances slowly sees only so much at a time.
LEAST_SPAN = 1 << 12
# The first read is no larger: most files end within it, and memory costs what is allocated, not what is filled.
FIRST_ROOM = 1 << 16
# So many bytes before `position` remain readable.
LEAD = 1 << 10


class BinaryFile(Protocol):
    """The methods that a file must have; Python's binary files and pyarrow's NativeFile have them."""

    def seek(self, position: int, /) -> object: ...

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Window:
    """The bytes `position` .. `position + filled` of a file as `data` (with padding after) and `view`.

    It may show fewer than the `held` bytes (`span`): a search through the shown bytes then costs no more than a few
    times the bytes that are dropped after it. Bytes are moved to the buffer's front only when half of it is free.
    """

    def __init__(self, file: BinaryFile, position: int, end: int | None, size: int) -> None:
        self._file = file
        self._end = end
        self.position = position
        self.filled = 0
        self.held = 0
        self.at_end = False  # the file has no bytes after the shown ones
        self._file_ended = False
        self._start = 0
        self._span: int | None = None
        self._allocate(min(size, FIRST_ROOM))
        file.seek(position)
        self._fill()
        if not self._file_ended and self._room < size:
            self._enlarge(size)

    def bytes_at(self, place: int, end: int) -> memoryview:
        """The bytes of the file from `place`, at most LEAD before `position`, to `end`."""
        start = self._start + place - self.position
        return self._buffer.data[start : start + end - place]

    @property
    def lead(self) -> int:
        """The number of readable bytes before `position`."""
        return min(self._start, LEAD)

    def drop(self, size: int) -> None:
        """Drops the first bytes and reads on."""
        self.position += size
        self.held -= size
        self._start += size
        if self._start >= LEAD + self._room // 2:
            self._to_front(self._buffer)
            self._fill()
        self._show()

    def grow(self) -> None:
        """Shows more: of the held bytes, of the file, or in a buffer of twice the size."""
        if self._span is not None and self._span < self.held:
            self._span *= 2
        elif self._start > LEAD:
            self._to_front(self._buffer)
            self._fill()
        else:
            self._enlarge(2 * self._room)
            self._span = None if self._span is None else 2 * self._span
        self._show()

    def got_on(self, size: int) -> None:
        """Adapts the span to the progress: after little of the shown bytes was finished, fewer are shown from now on;
        after much of them, more."""
        if 4 * size < self.filled + size:
            self._span = max(LEAST_SPAN, 4 * size)
        elif self._span is not None:
            self._span = None if self._span > self.held else 2 * self._span
        self._show()

    def _allocate(self, size: int) -> None:
        self._room = size
        self._buffer = np.zeros(LEAD + size + PADDING, np.uint8)

    def _enlarge(self, size: int) -> None:
        old = self._buffer
        self._allocate(size)
        self._to_front(old)
        self._fill()

    def _to_front(self, source: NDArray[np.uint8]) -> None:
        lead = self.lead
        self._buffer[: lead + self.held] = source[self._start - lead : self._start + self.held]
        self._start = lead

    def _fill(self) -> None:
        room = self._room
        if self._end is not None:
            room = min(room, max(self._end - self.position, 0))
        view = self._buffer.data
        while self.held < room and not self._file_ended:
            got = self._file.readinto(view[self._start + self.held : self._start + room])
            self.held += got or 0
            self._file_ended = not got
        if self._end is not None and self.position + self.held >= self._end:
            self._file_ended = True
        self._show()

    def _show(self) -> None:
        self.data = self._buffer[self._start :]
        self.view = self.data.data
        self.filled = self.held if self._span is None else min(self.held, self._span)
        self.at_end = self._file_ended and self.filled == self.held
