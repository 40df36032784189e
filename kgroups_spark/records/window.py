"""A stretch of a file in one reused buffer that moves forward."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from kgroups_spark.records.headers import PADDING


class BinaryFile(Protocol):
    """What is asked of a file: Python's binary files and pyarrow's NativeFile have it."""

    def seek(self, position: int, /) -> object: ...

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Window:
    """The bytes `position` .. `position + filled` of a file as `data` (with padding behind) and `view`."""

    def __init__(self, file: BinaryFile, position: int, end: int | None, size: int) -> None:
        self._file = file
        self._end = end
        self.position = position
        self.filled = 0
        self.at_end = False  # nothing is left behind the window
        self._allocate(size)
        file.seek(position)
        self._fill()

    def drop(self, size: int) -> None:
        """Lets the first bytes go and reads on."""
        left = self.filled - size
        self.data[:left] = self.data[size : self.filled]
        self.position += size
        self.filled = left
        self._fill()

    def grow(self) -> None:
        """Doubles the buffer and reads on."""
        old, filled = self.data, self.filled
        self._allocate(2 * (len(old) - PADDING))
        self.data[:filled] = old[:filled]
        self._fill()

    def _allocate(self, size: int) -> None:
        self.data = np.zeros(size + PADDING, np.uint8)
        self.view = self.data.data

    def _fill(self) -> None:
        room = len(self.data) - PADDING
        if self._end is not None:
            room = min(room, max(self._end - self.position, 0))
        while self.filled < room and not self.at_end:
            got = self._file.readinto(self.view[self.filled : room])
            self.filled += got or 0
            self.at_end = not got
        self.at_end = self.at_end or (self._end is not None and self.position + self.filled >= self._end)
